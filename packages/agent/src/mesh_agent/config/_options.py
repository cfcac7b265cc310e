"""The options of the commands that read the agent's configuration, and how their words are read.

The declaration is one for both readers: the command line's library, which knows all about help and
mistakes, and `read_words`, which reads what is simply right without it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mesh_agent.config._flags import Flags
from mesh_agent.config.table._flags import FLAGS
from mesh_command_line import FlagValueError, sort_flags

ROLE = "sidecar"
ROLES = "[sidecar|router]"
_HELP = "--help"


class Option(NamedTuple):
    """One option. Its type is that of its default; a tuple's may be repeated.

    field: of `Flags`. help: empty for one that the help does not name. least, most: of a number.
    """

    field: str
    spelling: str
    default: str | int | bool | tuple[str, ...]
    help: str = ""
    metavar: str | None = None
    least: int | None = None
    most: int | None = None


OPTIONS = (
    Option("domain", "--domain", "", "DNS domain of the workload."),
    Option(
        "mesh_config",
        "--meshConfig",
        "./etc/istio/config/mesh",
        "Mesh config file; it may be absent.",
    ),
    Option("service_cluster", "--serviceCluster", ""),
    Option("proxy_log_level", "--proxyLogLevel", "warning", "Envoy's log level."),
    Option("proxy_component_log_level", "--proxyComponentLogLevel", ""),
    Option("concurrency", "--concurrency", 0, "Envoy's worker threads; 0: one a core.", least=0),
    Option("template_file", "--templateFile", "", "A bootstrap of your own; no Go template."),
    Option("outlier_log", "--outlierLogPath", "", "File for outlier detection's events."),
    Option("envoy_path", "--envoy-path", "", "The Envoy to run; also ENVOY_PATH."),
    Option("log_levels", "--log_output_level", "default:info", "Level, or list of scope:level."),
    Option("log_as_json", "--log_as_json", False, "Log JSON, one object a line."),
    Option("log_target", "--log_target", ("stdout",), "stdout, stderr or a file; may be repeated."),
    Option("log_caller", "--log_caller", "", "Scopes whose lines say where they come from."),
    Option(
        "log_stacktrace_level",
        "--log_stacktrace_level",
        "default:none",
        "List of scope:level for stacks.",
    ),
    Option("log_rotate", "--log_rotate", "", "One more log file, moved aside when it is large."),
    Option(
        "log_rotate_max_size", "--log_rotate_max_size", 100 << 20, "Bytes of that file.", least=0
    ),
    Option(
        "log_rotate_max_age",
        "--log_rotate_max_age",
        30,
        "Days that old ones are kept.",
        least=0,
    ),
    Option(
        "log_rotate_max_backups",
        "--log_rotate_max_backups",
        1000,
        "How many old ones are kept.",
        least=0,
    ),
    Option("sts_port", "--stsPort", 0, "Exchange tokens on this local port.", least=0, most=65535),
    Option("token_manager_plugin", "--tokenManagerPlugin", "", "The source of those tokens."),
    Option(
        "exit_with",
        "--exit-with",
        "",
        "Drain and exit when that process ends; also MESH_AGENT_EXIT_WITH.",
        metavar="PID|NAME",
    ),
)


class SortedWords(NamedTuple):
    """The words of a command line.

    kept: the command's own options, each one word, and its arguments. passed: flags that are passed
    over. application: the words behind `--`; None without it.
    """

    kept: list[str]
    passed: tuple[tuple[str, str], ...]
    application: tuple[str, ...] | None


def sorted_words(words: Sequence[str], *, own: Mapping[str, bool]) -> SortedWords:
    """Sort the words of a command line; raises `FlagValueError`.

    own: the command's options, and whether each takes a value.
    """
    words, application = list(words), None
    if "--" in words:
        end = words.index("--")
        words, application = words[:end], tuple(words[end + 1 :])
    booleans = [setting.name for setting in FLAGS if setting.boolean]
    kept, passed = sort_flags(words, own=own, booleans=booleans)
    return SortedWords(kept, tuple(passed), application)


def read_words(words: Sequence[str]) -> Flags | None:
    """Return the flags in these words; None if they have a mistake, or ask for help."""
    options = {option.spelling: option for option in OPTIONS}
    own = {name: not isinstance(each.default, bool) for name, each in options.items()}
    try:
        found = sorted_words(words, own={**own, _HELP: False})
    except FlagValueError:
        return None
    values: dict[str, object] = {}
    for word in found.kept:
        name, _, text = word.partition("=")
        if (option := options.get(name)) is not None:
            if not _add(values, option, word, text):
                return None
        elif word.startswith("-") or "role" in values:
            return None
        else:
            values["role"] = word
    if found.application == ():
        return None
    return Flags(
        **values,  # type: ignore[arg-type]  # of the types of the defaults
        passed=found.passed,
        command=found.application or (),
    )


def _add(values: dict[str, object], option: Option, word: str, text: str) -> bool:
    """Add the value of an option; returns whether it is one."""
    value: object
    if isinstance(option.default, bool):
        value = True
    elif "=" not in word:
        return False
    elif isinstance(option.default, int):
        if not (text.isascii() and text.isdecimal() and len(text) < 19):
            return False
        value = int(text)
        if value < (option.least or 0) or (option.most is not None and value > option.most):
            return False
    elif isinstance(option.default, tuple):
        before = values.get(option.field, ())
        value = (*before, text) if isinstance(before, tuple) else (text,)
    else:
        value = text
    values[option.field] = value
    return True
