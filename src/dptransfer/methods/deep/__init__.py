"""Methods that train a network on images, and the networks' parts, gradients and checks; needs torch."""
