"""Methods that release one or more prototypes for each class."""
