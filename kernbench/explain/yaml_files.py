"""Errors of YAML files as such: topologies and bench files are read by the same reader."""

from __future__ import annotations

from kernbench.explain.model import CommandLine, Explanation, Topology

_GOOD = "extends: ahbm_1x1\nname: mine\n"
_RIGHT = Topology(f"{_GOOD}cube: {{pes: 2}}\n")
_CHECK = "kernbench check mine.yaml"

EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        code="E_YAML_FILE",
        story="The file is there under no such name, or may not be read.",
        wrong=CommandLine("kernbench check k.yaml", {"k.yaml": "extends: base.yaml\nkernel: k.tl\n"}),
        says="cannot read `base.yaml`: no such file or directory",
        right=CommandLine(
            "kernbench check k.yaml", {"k.yaml": "extends: base.yaml\nkernel: k.tl\n", "base.yaml": "kernel: k.tl\n"}
        ),
    ),
    Explanation(
        code="E_YAML_ENCODING",
        story="A YAML file is UTF-8 text. In another encoding its names would be read wrongly without a word.",
        wrong=CommandLine(_CHECK, {"mine.yaml": b"extends: ahbm_1x1\nname: caf\xe9\n"}),
        says="byte 0xe9 is no UTF-8 text",
        right=CommandLine(_CHECK, {"mine.yaml": "extends: ahbm_1x1\nname: café\n"}),
    ),
    Explanation(
        code="E_YAML_SIZE",
        story="The reader takes a megabyte and 24 levels: more than any topology or bench file needs.",
        wrong=Topology(f"{_GOOD}cube: {'[' * 30}1{']' * 30}\n"),
        says="nested deeper than 24 levels",
        right=_RIGHT,
    ),
    Explanation(
        code="E_YAML_SYNTAX",
        story="The text is not YAML. The place is where the reader noticed, which may be a line after the mistake.",
        wrong=Topology(f"{_GOOD}cube: {{pes: 2\n"),
        says="this is not YAML: expected ',' or '}', but got '<stream end>'",
        right=_RIGHT,
    ),
    Explanation(
        code="E_YAML_EMPTY",
        story="""
            A key has no value, or a file nothing at all. YAML reads an empty value as null, which is hardly ever what
            was meant; write `null` where it is.
        """,
        wrong=Topology(f"{_GOOD}cube: {{pes: }}\n"),
        says="there is no value here",
        right=_RIGHT,
    ),
    Explanation(
        code="E_YAML_DOCUMENTS",
        story="One file is one document. A second one behind `---` would be ignored.",
        wrong=Topology(f"{_GOOD}---\n{_GOOD}"),
        says="a second document starts here",
        right=_RIGHT,
    ),
    Explanation(
        code="E_YAML_DUPLICATE_KEY",
        story="YAML readers take the last of two equal keys, or the first. Here two are an error, with both lines.",
        wrong=Topology(f"{_GOOD}cube: {{pes: 2, pes: 4}}\n"),
        says="key `pes` stands twice, at lines 3 and 3",
        right=_RIGHT,
    ),
    Explanation(
        code="E_YAML_KEY",
        story="A key is a plain text; YAML would allow lists and mappings too.",
        wrong=Topology(f"{_GOOD}? [cube, pes]\n: 2\n"),
        says="a key is a list, not a text",
        right=_RIGHT,
    ),
    Explanation(
        code="E_YAML_FEATURE",
        story="""
            Anchors, aliases, merge keys and tags are not read: a person who looks at a line should see its value.
            What several files share is put in one that they extend.
        """,
        wrong=Topology(f"{_GOOD}cube: {{pes: &count 2}}\n"),
        says="anchor `&count` is not read",
        right=_RIGHT,
    ),
    Explanation(
        code="E_YAML_AMBIGUOUS",
        story="""
            YAML 1.1 and 1.2 read the value in different ways: `no` and `on` are false and true in one of them, `010`
            is 8, `1:30` is 90. Write `true` or `false`, a plain number, or a text in quotes. A placement on one PE
            has to write its key `"on"` for that reason.
        """,
        wrong=Topology(f"{_GOOD}cube: {{pes: 010}}\n"),
        says="`010` is ambiguous",
        right=Topology(f"{_GOOD}cube: {{pes: 10}}\n"),
    ),
    Explanation(
        code="E_YAML_NUMBER",
        story="""
            Numbers are read as decimals and kept exactly. More than 15 significant digits would not survive in JSON,
            where runs write their configuration.
        """,
        wrong=Topology(f"{_GOOD}ns_per_mm: 0.012345678901234567\n"),
        says="`0.012345678901234567` cannot be kept exactly",
        right=Topology(f"{_GOOD}ns_per_mm: 0.0123\n"),
    ),
    Explanation(
        code="E_YAML_UNKNOWN_KEY",
        story="""
            There is no such key at this place. A misspelled key that is ignored would leave a default in force
            without a word. Units live in the key: `bw_gbs`, `overhead_ns`, `distance_mm`.
        """,
        wrong=Topology(f"{_GOOD}cube: {{hbm: {{bandwidth: 100}}}}\n"),
        says="there is no key `bandwidth` here",
        right=Topology(f"{_GOOD}cube: {{hbm: {{bw_gbs: 100}}}}\n"),
    ),
    Explanation(
        code="E_YAML_MISSING_KEY",
        story="A key without a default is not there. The help line says what it is and of which type.",
        wrong=Topology("extends: ahbm_1x1\nname: mine\nio_chiplets: [{pcie_ep: {overhead_ns: 50, bw_gbs: 63.0}}]\n"),
        says="key `io_chiplets[0].io_cpu` is missing",
        right=_RIGHT,
    ),
    Explanation(
        code="E_YAML_TYPE",
        story="A value is of another type than its key takes: a text for a number, a list for a mapping.",
        wrong=Topology(f'{_GOOD}cube: {{pes: "2"}}\n'),
        says="`cube.pes` is '2'",
        right=_RIGHT,
    ),
    Explanation(
        code="E_YAML_RANGE",
        story="A number is outside of what its key may hold: a bandwidth of 0, more PEs than a cube can have.",
        wrong=Topology(f"{_GOOD}cube: {{pes: 0}}\n"),
        says="`cube.pes` is 0",
        right=_RIGHT,
    ),
    Explanation(
        code="E_YAML_CHOICE",
        story="The key takes one of a few words, and this is none of them. The nearest is offered.",
        wrong=Topology(f"{_GOOD}pe: {{pe_scheduler: {{issue: inorder}}}}\n"),
        says="`pe.pe_scheduler.issue` is 'inorder'",
        right=Topology(f"{_GOOD}pe: {{pe_scheduler: {{issue: in_order}}}}\n"),
    ),
)
