"""Reads the metadata of a GGUF file. PyPI `gguf` takes 20 seconds for half a million merges."""
import mmap
import struct

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}
STRING, ARRAY = 8, 9


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def scalars(self, letter, count=1):
        values = struct.unpack_from(f"<{count}{letter}", self.data, self.at)
        self.at += struct.calcsize(f"<{count}{letter}")
        return values

    def string(self):
        size, = self.scalars("Q")
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            return self.scalars(SCALARS[kind])[0]
        element, = self.scalars("I")
        count, = self.scalars("Q")
        if element in SCALARS:
            return list(self.scalars(SCALARS[element], count))
        return [self.value(element) for _ in range(count)]


def read_metadata(path):
    """Returns the file's keys with their values."""
    with open(path, "rb") as file:
        reader = _Reader(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    assert reader.data[:4] == b"GGUF"
    reader.at = 16  # after the version and the number of tensors
    count, = reader.scalars("Q")
    fields = {}
    for _ in range(count):
        key = reader.string()
        kind, = reader.scalars("I")
        fields[key] = reader.value(kind)
    return fields
