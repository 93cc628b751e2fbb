"""The decoder-only transformer, forward and backward, in NumPy alone.

Every operation is a pair, one above the other::

    out, cache = op_forward(arrays, options)
    gradients  = op_backward(dout, cache)        # in the forward's argument order

The letters that shapes are written in, here and in the whole course:

=====  ==============================================================
B      sequences in a batch
T      tokens in a sequence
D      width of the residual stream (``d_model``)
H      query heads (``n_heads``)
K      key/value heads (``n_kv_heads``); H / K query heads share one
Dh     width of one head (``d_head``), D / H unless set apart
F      width of the feed-forward's hidden layer (``d_ff``)
L      blocks (``n_layers``)
V      tokens in the vocabulary (``vocab_size``)
=====  ==============================================================

Weights are stored [in, out], so that a projection reads ``y = x @ w``.
Read the modules in this order: ops, norm, rope, attention, ffn, block, loss, config, model.
"""

__version__ = "0.1.0"
