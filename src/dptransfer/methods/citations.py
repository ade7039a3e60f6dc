"""The papers that several methods come from, and what differs here in all of them."""

PROTOTYPES = (
    "Wahdany, Jagielski, Dziedzic, Boenisch: Differentially Private Prototypes for Imbalanced "
    "Transfer Learning (AAAI 2025)"
)
FEATURES = (
    "Mehta, Krichene, Thakurta, Kurakin, Cutkosky: Differentially Private Image Classification from "
    "Features (TMLR 2023)"
)
MIXED = (
    "Golatkar, Achille, Wang, Roth, Kearns, Soatto: Mixed Differential Privacy in Computer Vision (CVPR 2022)"
)
RIGHT_STEPS = "with the accounting corrected: T steps cost T/2σ² in zCDP, where T²/2σ² is printed."
TEACHERS = (
    "Li, Tsai, Yu, Chen, Ren: Exploring the Benefits of Visual Prompting in Differential Privacy (ICCV 2023)"
)
