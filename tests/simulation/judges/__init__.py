"""What must hold of a world at every moment, judged from API servers' histories and kubelets alone.

One promise a class, named after it (I1-I20 are the reliability contract's). None of this looks into the product.
"""
