#!/usr/bin/env python3
"""A schema that could not work is refused at build time, with the reason."""
import importlib.util
import json
import os
import sys
import tempfile
import unittest

spec = importlib.util.spec_from_file_location("generate", sys.argv.pop(1))
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)

STRING = {"name": "s", "type": "string"}


def load(fields, structs=None, **changes):
    schema = {"kind": "data", "name": "Thing", "versions": "0-2", "flexible": "1+", "fields": fields, **changes}
    if structs:
        schema["structs"] = structs
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "thing.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(schema, file)
        return generate.Message(path)


class Schemas(unittest.TestCase):
    def refused(self, reason, *args, **changes):
        with self.assertRaisesRegex(generate.SchemaError, reason):
            load(*args, **changes)

    def test_a_sound_schema_is_taken(self):
        message = load([STRING, {"name": "xs", "type": "[]X", "versions": "1+", "nullable": True, "default": None}],
                       {"X": [{"name": "tagged", "type": "int32", "tag": 0, "versions": "1+"}, STRING]})
        self.assertEqual([f.name for f in message.structs["X"]], ["s", "tagged"])
        self.assertEqual([message.bytes_min(message.fields, v) for v in (0, 1, 2)], [2, 3, 3])
        self.assertIn("std::optional<std::vector<X>> xs;", generate.header(message, "mq::wire"))

    def test_misspelt_attributes(self):
        self.refused("unknown attributes", [{**STRING, "nulable": "1+"}])
        self.refused("unknown attributes", [STRING], flexibel="1+")

    def test_ranges(self):
        self.refused("bad version range", [{**STRING, "versions": "1..2"}])
        self.refused("have an end", [STRING], versions="0+")

    def test_types(self):
        self.refused("unknown type", [{"name": "x", "type": "int24"}])
        self.refused("no struct", [{"name": "x", "type": "Missing"}])
        self.refused("never used", [STRING], {"X": [STRING]})
        self.refused("contains itself", [{"name": "x", "type": "X"}], {"X": [{"name": "y", "type": "[]X"}]})

    def test_null(self):
        self.refused("cannot be null", [{"name": "x", "type": "int32", "nullable": "1+"}])
        self.refused("never null", [{**STRING, "default": None}])

    def test_tags(self):
        self.refused("no tagged fields", [{**STRING, "tag": 0}])
        tagged = {**STRING, "tag": 0, "versions": "1+"}
        self.refused("tag twice", [tagged, {**tagged, "name": "t"}])

    def test_an_element_without_bytes(self):
        self.refused("takes no bytes in version 0", [{"name": "xs", "type": "[]X"}], {"X": [{**STRING, "versions": "1+"}]})

    def test_records_where_nothing_can_be_spliced_in(self):
        self.refused("could not splice", [{"name": "r", "type": "[]records"}])
        self.refused("could not splice", [{"name": "x", "type": "X", "tag": 0, "versions": "1+"}],
                     {"X": [{"name": "r", "type": "records", "versions": "1+"}]})


unittest.main()
