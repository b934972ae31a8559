#!/usr/bin/env python3
"""Turns schema files into C++ structs and descriptor tables (see README.md for the form of a schema).

usage: generate.py OPTIONS --list SCHEMAS        prints the names of the generated files, for meson.build
       generate.py OPTIONS --out DIR SCHEMAS     writes them; SCHEMAS is a folder

OPTIONS  --namespace NS   namespace of the structs (mq::wire)
         --folder F       folder the headers are included by (wire)
         --sources N      how many .cc files to spread the tables over
         --depfile FILE   what the output depends on, for ninja
         --apis           also apis.h: the table of request/response pairs (only wire)
"""
import argparse
import json
import os
import re
import sys

VERSION_MAX = 32767
SCALARS = {"bool": ("bool", "boolean", 1), "int8": ("int8_t", "int8", 1), "int16": ("int16_t", "int16", 2),
           "error": ("Error", "int16", 2), "uint16": ("uint16_t", "uint16", 2), "int32": ("int32_t", "int32", 4),
           "uint32": ("uint32_t", "uint32", 4), "int64": ("int64_t", "int64", 8), "float64": ("double", "float64", 8),
           "uuid": ("Uuid", "uuid", 16)}
SIZED = {"string": ("std::string", "string"), "bytes": ("Blob", "bytes"), "records": ("Blob", "records")}
KINDS = {"request": "apiKey", "response": "apiKey", "recordKey": "recordType", "recordValue": "recordType",
         "metadata": "recordType", "header": None, "data": None}
KEYWORDS = {"class", "default", "delete", "export", "namespace", "new", "operator", "private", "protected", "public",
            "register", "switch", "template", "this", "typename", "union", "using", "void"}
MESSAGE_KEYS = {"kind", "name", "apiKey", "recordType", "topic", "versions", "flexible", "latestVersionUnstable", "doc",
                "fields", "structs"}
FIELD_KEYS = {"name", "type", "versions", "nullable", "tag", "default", "droppable", "rigid", "doc"}


class SchemaError(Exception):
    pass


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def parse_range(text, within):
    """"3+", "3-7", "3" or "none", cut to `within`; (0, -1) when empty."""
    if text == "none":
        return (0, -1)
    if not re.fullmatch(r"\d+(\+|-\d+)?", text):
        raise SchemaError(f"bad version range {text!r}")
    first, last = (text[:-1], VERSION_MAX) if text.endswith("+") else (text.split("-") * 2)[:2]
    first, last = max(int(first), within[0]), min(int(last), within[1])
    return (first, last) if first <= last else (0, -1)


class Field:
    def __init__(self, spec, message):
        if set(spec) - FIELD_KEYS:
            raise SchemaError(f"field {spec.get('name')}: unknown attributes {sorted(set(spec) - FIELD_KEYS)}")
        self.name = spec["name"]
        self.member = self.name + "_" if self.name in KEYWORDS else self.name
        self.is_array = spec["type"].startswith("[]")
        self.base = spec["type"].removeprefix("[]")
        self.is_struct = self.base[0].isupper()
        self.versions = parse_range(spec.get("versions", f"{message.versions[0]}+"), message.versions)
        nullable = spec.get("nullable", "none")
        self.nullable = self.versions if nullable is True else parse_range(nullable, self.versions)
        self.is_nullable = self.nullable[1] >= self.nullable[0]
        self.tag = spec.get("tag", -1)
        self.default = spec.get("default", "" if self.base == "string" else 0)
        self.is_droppable = spec.get("droppable", False)
        self.is_rigid = spec.get("rigid", False)
        self.doc = spec.get("doc")
        if not self.is_struct and self.base not in SCALARS and self.base not in SIZED:
            raise SchemaError(f"{self.name}: unknown type {self.base}")
        if self.is_nullable and self.base in SCALARS and not self.is_array:
            raise SchemaError(f"{self.name}: a {self.base} cannot be null")
        if self.default is None and not self.is_nullable:
            raise SchemaError(f"{self.name}: default null, but never null")
        if self.default is not None and self.default not in ("", 0) and (self.is_array or self.is_struct):
            raise SchemaError(f"{self.name}: only null can be a default here")
        if self.tag >= 0:
            for version in range(self.versions[0], self.versions[1] + 1):
                if not message.is_flexible(version):
                    raise SchemaError(f"{self.name}: tagged in version {version}, which has no tagged fields")

    def element(self):
        """C++ type of one value, without vector and optional."""
        return self.base if self.is_struct else (SCALARS.get(self.base) or SIZED[self.base])[0]

    def value_type(self):
        return f"std::vector<{self.element()}>" if self.is_array else self.element()

    def cpp_type(self):
        return f"std::optional<{self.value_type()}>" if self.is_nullable else self.value_type()

    def initializer(self):
        if self.is_nullable:
            if self.default is None:
                return ""
            if self.base == "string" and not self.is_array:
                return f" = {json.dumps(self.default)}"
            return f" = {self.value_type()}()"
        if self.is_array or self.is_struct or self.base in ("bytes", "records", "uuid"):
            return ""
        if self.base == "string":
            return f" = {json.dumps(self.default)}" if self.default else ""
        if self.base == "bool":
            return f" = {'true' if self.default else 'false'}"
        if self.base == "error":
            return f" = Error({self.default})" if self.default else " = Error::none"
        return f" = {number(self.default, self.base)}"


def number(value, base):
    if base == "float64":
        return repr(float(value))
    if value == -2**31 and base == "int32":
        return "INT32_MIN"
    if value == 2**31 - 1 and base == "int32":
        return "INT32_MAX"
    if value == 2**63 - 1:
        return "INT64_MAX"
    return str(value)


class Message:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            spec = json.load(file)
        if set(spec) - MESSAGE_KEYS:
            raise SchemaError(f"unknown attributes {sorted(set(spec) - MESSAGE_KEYS)}")
        self.kind, self.name = spec["kind"], spec["name"]
        self.stem = snake(self.name)
        if os.path.basename(path) != self.stem + ".json":
            raise SchemaError(f"{self.name} belongs into {self.stem}.json")
        self.number = spec[KINDS[self.kind]] if KINDS[self.kind] else -1
        self.versions = parse_range(spec["versions"], (0, VERSION_MAX))
        if self.versions[1] == VERSION_MAX:
            raise SchemaError("a message's versions have an end")
        self.flexible = parse_range(spec["flexible"], self.versions)
        self.is_unstable = spec.get("latestVersionUnstable", False)
        self.topic, self.doc = spec.get("topic"), spec.get("doc")
        self.fields = self.sorted([Field(f, self) for f in spec["fields"]])
        self.structs = {}
        for name, fields in spec.get("structs", {}).items():
            self.structs[name] = self.sorted([Field(f, self) for f in fields])
        self.check()

    def is_flexible(self, version):
        return self.flexible[0] <= version <= self.flexible[1]

    @staticmethod
    def sorted(fields):
        """Wire order: plain fields as they stand, then tagged ones by tag."""
        return [f for f in fields if f.tag < 0] + sorted((f for f in fields if f.tag >= 0), key=lambda f: f.tag)

    def check(self):
        used, pending = set(), [(self.fields, (self.name,), False)]
        while pending:
            fields, path, in_tag = pending.pop()
            if len({f.name for f in fields}) != len(fields):
                raise SchemaError(f"{path[-1]}: a field name twice")
            tags = [f.tag for f in fields if f.tag >= 0]
            if len(set(tags)) != len(tags):
                raise SchemaError(f"{path[-1]}: a tag twice")
            for f in fields:
                if f.base == "records" and (f.is_array or in_tag or f.tag >= 0):
                    raise SchemaError(f"{f.name}: records cannot be in an array or a tag: the encoder could not splice there")
                if f.is_struct:
                    if f.base not in self.structs:
                        raise SchemaError(f"{f.name}: no struct {f.base}")
                    if f.base in path:
                        raise SchemaError(f"{f.base} contains itself")
                    used.add(f.base)
                    pending.append((self.structs[f.base], path + (f.base,), in_tag or f.tag >= 0))
                    for version in range(f.versions[0], f.versions[1] + 1):
                        # Otherwise four bytes could announce any number of elements.
                        if f.is_array and self.bytes_min(self.structs[f.base], version) == 0:
                            raise SchemaError(f"{f.name}: an element takes no bytes in version {version}")
        if used != set(self.structs):
            raise SchemaError(f"structs never used: {sorted(set(self.structs) - used)}")

    def bytes_min(self, fields, version):
        """Fewest bytes a struct can take."""
        flexible = self.is_flexible(version)
        total = 1 if flexible else 0
        for f in fields:
            if f.tag >= 0 or not f.versions[0] <= version <= f.versions[1]:
                continue
            compact = flexible and not f.is_rigid
            if f.is_array:
                total += 1 if compact else 4
            elif f.is_struct:
                nullable = f.nullable[0] <= version <= f.nullable[1]
                total += 1 if nullable else self.bytes_min(self.structs[f.base], version)
            elif f.base in SCALARS:
                total += SCALARS[f.base][2]
            else:
                total += 1 if compact else 2 if f.base == "string" else 4
        return total

    def structs_inner_first(self):
        done = []

        def visit(name):
            if name in done:
                return
            for f in self.structs[name]:
                if f.is_struct:
                    visit(f.base)
            done.append(name)
        for name in self.structs:
            visit(name)
        return done


def shown(versions):
    return str(versions[0]) if versions[0] == versions[1] else f"{versions[0]}-{versions[1]}"


def struct_body(message, fields, pad):
    out = []
    for f in fields:
        notes = [f"versions {shown(f.versions)}"] if f.versions != message.versions else []
        if f.is_nullable and f.nullable != f.versions:
            notes.append(f"null in {shown(f.nullable)}")
        if f.doc:
            notes.append(f.doc)
        out.append(f"{pad}{f.cpp_type()} {f.member}{f.initializer()};" + (f"  // {'; '.join(notes)}" if notes else ""))
    if message.flexible[1] >= message.flexible[0]:
        out.append(f"{pad}UnknownTags unknownTags;")
    return out


def header(message, namespace):
    what = {"request": f"Request of api {message.number}", "response": f"Response of api {message.number}",
            "recordKey": f"Record key, type {message.number}, of {message.topic}",
            "recordValue": f"Record value, type {message.number}, of {message.topic}",
            "metadata": f"Metadata record, type {message.number}"}.get(message.kind, message.kind.capitalize())
    flexible = f"flexible from {message.flexible[0]}" if message.flexible[1] >= 0 else "never flexible"
    out = [f"// {what}: versions {shown(message.versions)}, {flexible}. Generated from {message.stem}.json."]
    if message.doc:
        out.append(f"// {message.doc}")
    out += ["#pragma once", "#include <cstdint>", "#include <optional>", "#include <string>", "#include <vector>", "",
            '#include "base/error.h"', '#include "base/uuid.h"', '#include "wire/descriptor.h"', '#include "wire/value.h"',
            "", f"namespace {namespace} {{", ""]
    if namespace != "mq::wire":
        out += ["using wire::Blob;", "using wire::UnknownTags;", ""]
    if message.kind == "request":
        out += [f"struct {message.name.removesuffix('Request')}Response;", ""]
    # Not nested: a class is complete for std::optional only after its enclosing class is.
    parts = message.structs_inner_first()
    if parts:
        out += [f"namespace {message.stem} {{", ""]
        for name in parts:
            out.append(f"struct {name} {{")
            out += struct_body(message, message.structs[name], "  ")
            out += [f"  friend bool operator==(const {name}&, const {name}&) = default;", "};", ""]
        out += [f"}}  // namespace {message.stem}", ""]
    out.append(f"struct {message.name} {{")
    out += [f"  using {name} = {message.stem}::{name};" for name in parts] + ([""] if parts else [])
    out += struct_body(message, message.fields, "  ")
    out += [f"  friend bool operator==(const {message.name}&, const {message.name}&) = default;", ""]
    if message.kind == "request":
        out.append(f"  using Response = {message.name.removesuffix('Request')}Response;")
    if KINDS[message.kind]:
        constant = "kApiKey" if KINDS[message.kind] == "apiKey" else "kRecordType"
        out.append(f"  static constexpr int16_t {constant} = {message.number};")
    out += [f"  static constexpr int16_t kVersionMin = {message.versions[0]};",
            f"  static constexpr int16_t kVersionMax = {message.versions[1]};",
            "  static const wire::Message kDescriptor;", "};", "", f"}}  // namespace {namespace}", ""]
    return "\n".join(out)


def vrange(versions):
    return "{%d, %d}" % versions


def field_row(f, owner, prefix):
    row = [f'.name = "{f.name}"', f".offset = offsetof({owner}, {f.member})",
           f".type = Type::{'structure' if f.is_struct else (SCALARS.get(f.base) or SIZED[f.base])[1]}"]
    if f.is_droppable:
        row.append(".isDroppable = true")
    if f.is_rigid:
        row.append(".isRigid = true")
    if f.default is None:
        row.append(".isNullByDefault = true")
    row.append(f".versions = {vrange(f.versions)}")
    if f.is_nullable:
        row.append(f".nullable = {vrange(f.nullable)}")
    if f.tag >= 0:
        row.append(f".tag = {f.tag}")
    if f.is_struct:
        row.append(f".structure = &k{prefix}{f.base}")
    scope = owner.split("::")[0] + "::" if f.is_struct else ""
    element = scope + f.element()
    if f.is_array:
        row.append(f".array = &kArray<{element}>")
    if f.is_nullable:
        row.append(f".optional = &kOptional<{'std::vector<' + element + '>' if f.is_array else element}>")
    if not f.is_array and not f.is_struct and f.default:
        if f.base == "string":
            row.append(f".defaultText = {json.dumps(f.default)}")
        elif f.base == "float64":
            row.append(f".defaultNumber = std::bit_cast<int64_t>({float(f.default)!r})")
        else:
            row.append(f".defaultNumber = {number(int(f.default), 'int64')}")
    return "    {" + ", ".join(row) + "},"


def structure(message, fields, owner, name):
    """Table rows and value of a Structure; the message itself has no `name`."""
    prefix = message.name
    mins = [message.bytes_min(fields, v) for v in range(message.versions[0], message.versions[1] + 1)]
    flexible = message.flexible[1] >= message.flexible[0]
    table = f"k{prefix}{name}Fields"
    rows = [f"constexpr uint16_t k{prefix}{name}BytesMin[] = {{{', '.join(map(str, mins))}}};"]
    if fields:
        rows += [f"constexpr Field {table}[] = {{", *(field_row(f, owner, prefix) for f in fields), "};"]
    value = (f'{{.name = "{name or message.name}", .fields = {table if fields else "{}"}, '
             f".plainCount = {sum(f.tag < 0 for f in fields)}, .size = sizeof({owner}), "
             f".unknownTagsOffset = {f'offsetof({owner}, unknownTags)' if flexible else -1}, "
             f".bytesMin = k{prefix}{name}BytesMin}}")
    return rows, value


def tables(messages, namespace, folder):
    out = ["// Descriptor tables. Generated; see generate.py.", "#include <bit>", "#include <cstddef>", "",
           '#include "wire/access.h"', *(f'#include "{folder}/{m.stem}.h"' for m in messages), "",
           '#pragma clang diagnostic ignored "-Winvalid-offsetof"', "", f"namespace {namespace} {{", "namespace {",
           "using namespace wire;" if namespace != "mq::wire" else "", ""]
    definitions = []
    for m in messages:
        for name in m.structs_inner_first():
            rows, value = structure(m, m.structs[name], f"{m.name}::{name}", name)
            out += rows + [f"constexpr Structure k{m.name}{name} = {value};"]
        rows, value = structure(m, m.fields, m.name, "")
        out += rows + [""]
        definitions.append(
            f'constinit const wire::Message {m.name}::kDescriptor = {{.name = "{m.name}", '
            f".kind = wire::MessageKind::{m.kind}, .latestVersionUnstable = {str(m.is_unstable).lower()}, "
            f".number = {m.number}, .versions = {vrange(m.versions)}, .flexible = {vrange(m.flexible)}, "
            f".body = {value}, "
            f".create = &wire::create<{m.name}>, .destroy = &wire::destroy<{m.name}>}};")
    out += ["}  // namespace", "", *definitions, "", f"}}  // namespace {namespace}", ""]
    return "\n".join(out)


def message_list(messages, namespace, folder):
    out = ["// All messages of this folder, in name order. Generated; see generate.py.",
           *(f'#include "{folder}/{m.stem}.h"' for m in messages), f'#include "{folder}/messages.h"', "",
           f"namespace {namespace} {{", "namespace {", "constexpr const wire::Message* kAll[] = {",
           *(f"    &{m.name}::kDescriptor," for m in messages), "};", "}  // namespace", "",
           "std::span<const wire::Message* const> allMessages() { return kAll; }", "", f"}}  // namespace {namespace}", ""]
    return "\n".join(out)


def list_header(namespace):
    return "\n".join([
        "// The descriptors of all messages of this folder, in name order: for tools, tests and fuzzers. Generated.",
        "#pragma once", "#include <span>", "", '#include "wire/descriptor.h"', "", f"namespace {namespace} {{", "",
        "std::span<const wire::Message* const> allMessages();", "", f"}}  // namespace {namespace}", ""])


def apis(messages):
    """apis.h: the request/response pairs."""
    requests = sorted((m for m in messages if m.kind == "request"), key=lambda m: m.number)
    responses = {m.number: m for m in messages if m.kind == "response"}
    names = {m.number: m.name.removesuffix("Request") for m in requests}
    out = ["// The request/response pairs of the Kafka protocol that mq has codecs for. Generated; see generate.py.",
           "#pragma once", '#include "wire/api.h"',
           "", "namespace mq::wire {", "", "enum class ApiKey : int16_t {",
           *(f"  {names[m.number][0].lower() + names[m.number][1:]} = {m.number}," for m in requests), "};", "",
           "// Ascending by key.", "inline constexpr Api kApis[] = {"]
    for m in requests:
        r = responses.get(m.number)
        if not r or r.versions != m.versions or r.name != names[m.number] + "Response":
            raise SchemaError(f"{m.name}: no response of the same name and versions")
        never = VERSION_MAX
        out.append(f'    {{.key = {m.number}, .name = "{names[m.number]}", .versions = {vrange(m.versions)}, '
                   f".requestFlexibleFrom = {m.flexible[0] if m.flexible[1] >= 0 else never}, "
                   f".responseFlexibleFrom = {r.flexible[0] if r.flexible[1] >= 0 else never}, "
                   f".latestVersionUnstable = {str(m.is_unstable).lower()}}},")
    out += ["};", "", "}  // namespace mq::wire", ""]
    return "\n".join(out)


def write(path, text):
    """Leaves an unchanged file alone, so that what includes it is not built again."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def schema_paths(folder):
    return sorted(os.path.join(folder, n) for n in os.listdir(folder) if n.endswith(".json"))


def output_names(options, stems):
    names = [f"{stem}.h" for stem in stems] + ["messages.h", "messages.cc"]
    names += [f"tables_{i}.cc" for i in range(options.sources)]
    if options.apis:
        names.append("apis.h")
    return names


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("schemas")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--namespace", default="mq::wire")
    parser.add_argument("--folder", default="wire")
    parser.add_argument("--sources", type=int, default=1)
    parser.add_argument("--apis", action="store_true")
    parser.add_argument("--depfile")
    parser.add_argument("--out")
    options = parser.parse_args()
    paths = schema_paths(options.schemas)
    if options.list:
        print("\n".join(output_names(options, [os.path.basename(p)[:-5] for p in paths])))
        return
    messages = []
    for path in paths:
        try:
            messages.append(Message(path))
        except (SchemaError, KeyError, ValueError) as e:
            sys.exit(f"{path}: {e!r}")
    files = {f"{m.stem}.h": header(m, options.namespace) for m in messages}
    files["messages.h"] = list_header(options.namespace)
    files["messages.cc"] = message_list(messages, options.namespace, options.folder)
    for i in range(options.sources):
        files[f"tables_{i}.cc"] = tables(messages[i::options.sources], options.namespace, options.folder)
    if options.apis:
        files["apis.h"] = apis(messages)
    for name, text in files.items():
        write(os.path.join(options.out, name), text)
    if options.depfile:
        first = os.path.join(options.out, output_names(options, [m.stem for m in messages])[0])
        with open(options.depfile, "w", encoding="utf-8") as file:
            file.write(f"{first}: {' '.join([options.schemas] + paths)}\n")


if __name__ == "__main__":
    main()
