"""The one way into and out of a file of weights.

``read`` takes files of strangers, ``sealed`` our own training checkpoints, ``coverage`` compares
tensors with a model and loads them, ``load`` finds the backbone inside any known layout.
"""
