"""The flags that Istio's command takes before and after the name of every sub-command.

They are about the agent's log: the commands that read the agent's configuration take them, the
others say that they have no effect.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_TAKES_VALUE: Mapping[str, bool] = {
    "--log_as_json": False,
    "--log_caller": True,
    "--log_output_level": True,
    "--log_rotate": True,
    "--log_rotate_max_age": True,
    "--log_rotate_max_backups": True,
    "--log_rotate_max_size": True,
    "--log_stacktrace_level": True,
    "--log_target": True,
    "--vklog": True,
}
_COMMANDS_WITH_THEM = ("proxy", "config", "doctor")


def place_root_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words with the root flags behind the command's name, and the useless ones.

    A command that does not take them loses them, wherever they stand.
    """
    leading, rest = _leading_flags(words)
    if not rest:
        return [*leading, *rest], []
    if rest[0] in _COMMANDS_WITH_THEM:
        return [rest[0], *leading, *rest[1:]], []
    useless = [word.partition("=")[0] for word in leading if word.startswith("-")]
    kept = [rest[0]]
    words_left = rest[1:]
    while words_left:
        flag, words_left = _flag(words_left)
        if flag:
            useless.append(flag[0].partition("=")[0])
        else:
            kept.append(words_left[0])
            if words_left[0] == "--":
                return [*kept, *words_left[1:]], useless
            words_left = words_left[1:]
    return kept, useless


def _leading_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    leading: list[str] = []
    rest = list(words)
    while rest:
        flag, rest = _flag(rest)
        if not flag:
            break
        leading += flag
    return leading, rest


def _flag(words: list[str]) -> tuple[list[str], list[str]]:
    """Take a root flag, and its value, off the beginning of the words, if there is one."""
    name, equals, _ = words[0].partition("=")
    if (takes_value := _TAKES_VALUE.get(name)) is None:
        return [], words
    count = 2 if takes_value and not equals and len(words) > 1 else 1
    return words[:count], words[count:]
