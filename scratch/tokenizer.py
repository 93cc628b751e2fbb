"""The real model's tokenizer, rebuilt from the merges that its GGUF file carries."""


def tokenizer_from_gguf(reader):
    """A byte-level BPE tokenizer from the fields of a gguf.GGUFReader.

    Text is cut into single digits and GPT-2's word pieces, bytes become printable characters, and the file's merges
    are applied in order. Control tokens such as <|im_start|> are kept whole. Returns a `tokenizers.Tokenizer`.
    """
    # Imported here so that scratch needs NumPy alone.
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens = reader.get_field("tokenizer.ggml.tokens").contents()
    merges = [tuple(merge.split(" ")) for merge in reader.get_field("tokenizer.ggml.merges").contents()]
    kinds = reader.get_field("tokenizer.ggml.token_type").contents()
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [AddedToken(token, special=True) for token, kind in zip(tokens, kinds, strict=True) if kind == 3]
    tokenizer.add_special_tokens(control)
    return tokenizer


def pieces(tokenizer, ids):
    """The text of each id alone, for labels: a leading space is kept, a line break is shown as ⏎."""
    return [tokenizer.decode([int(i)], skip_special_tokens=False).replace("\n", "⏎") for i in ids]
