"""Pure tensor functions shared by two parts or more; they know nothing else of the library.

Shape letters, one legend for the whole library: B sequences, T positions, N positions that count, D hidden width,
V vocabulary, K asked ids or parts, S stored entries, E source positions.
"""
