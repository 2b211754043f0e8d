"""Whether a command that a page gives is one that there is, by the program's own parser."""

import click


def parse(program: click.Command, words: list[str]) -> None:
    """click's own parser takes them; UsageError otherwise. A value is a name of what goes there."""
    context = click.Context(program)
    while isinstance(program, click.Group):
        parser = program.make_parser(context)
        _values, rest, _order = parser.parse_args(list(words))
        assert rest, f"{program.name} of {words} says no command"
        found = program.get_command(context, rest[0])
        assert found is not None, f"there is no command {rest[0]}"
        program, words = found, rest[1:]
        context = click.Context(program, parent=context)
    values, rest, _order = program.make_parser(context).parse_args(list(words))
    assert not rest, f"{program.name} takes no {' '.join(rest)}"
    needed = (one for one in program.params if isinstance(one, click.Argument) and one.required)
    lacking = [one.name for one in needed if one.name and not values.get(one.name)]
    assert not lacking, f"{program.name} needs {', '.join(lacking)}"
