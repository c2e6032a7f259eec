"""The numbers that the paper prints, to be set beside ours."""

# Section 6, figure 3: alpha -> (r_1, r_2, sparsity of the codes in percent, r~).
SYNTHETIC = {
    0.75: (75, 98, 0.5, 1002),
    0.85: (32, 44, 0.34, 702),
    0.90: (7, 12, 0.59, 460),
    0.95: (3, 8, 1.12, 369),
}

# Section 7, table 3: method -> PSNR in dB on slices 25, 30, 35, and their average.
SLICES = (25, 30, 35)
DENOISING = {
    "I-SR": (16.631, 16.715, 17.311, 16.886),
    "I-SR + TV": (16.634, 16.720, 17.323, 16.892),
    "I-KSVD": (18.011, 16.090, 16.679, 16.927),
    "Curve-SR": (17.000, 17.087, 17.793, 17.293),
    "KSVD-KSVD": (19.182, 17.001, 17.675, 17.953),
    "KDRSDL": (18.793, 16.725, 17.418, 17.645),
    "Proposed": (19.501, 17.221, 17.868, 18.197),
}
