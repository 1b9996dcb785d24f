# SPDX-License-Identifier: Apache-2.0
"""A byte-pair encoding by the Python package tokenizers, and what it makes of text.

    python3 peer.py make TEXT FOLDER   writes vocab.json and merges.txt
    python3 peer.py sample             prints hard.txt: letters, numbers, blanks and marks of many scripts
    python3 peer.py encode FOLDER      standard input becomes 16-bit numbers, as examples/gpt/tokenize writes them"""
import array
import random
import sys

if sys.argv[1] == "sample":
    random.seed (3)
    pool = ("  \n\t\r abcdefXYZ0123456789'''sstllvem.,;:!?-_()[]{}äöüßéèñçøœÆλπЖдعשकख中文字日本語한국어٣४Ⅷ½²"
            "\u00a0\u2003\u200b\u3000🙂👍🏽\u0301\x85\x0b\x0c\x1c")
    text = "".join (random.choice (pool) * random.choice ([1, 1, 1, 2, 3]) for _ in range (3000))
    sys.stdout.buffer.write (text.encode ())
    sys.exit ()

from tokenizers import ByteLevelBPETokenizer

if sys.argv[1] == "make":
    tokenizer = ByteLevelBPETokenizer ()
    tokenizer.train ([sys.argv[2]], vocab_size=600, show_progress=False)
    tokenizer.save_model (sys.argv[3])
else:
    tokenizer = ByteLevelBPETokenizer.from_file (sys.argv[2] + "/vocab.json", sys.argv[2] + "/merges.txt")
    array.array ("H", tokenizer.encode (sys.stdin.buffer.read ().decode ()).ids).tofile (sys.stdout.buffer)
