#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count the circles of the house: files that need each other, and folders that do.

    circles.py SOURCE BUILD

A room is a .c file together with the .h of the same name.  Room A needs room B if A includes B's header or if an object
file of A refers to a symbol that B defines; so calls count as well as includes, but not calls through pointers.  Objects
whose source is gone are ignored.  A circle is a set of rooms, or of folders, each of which needs all the others.  Folders are those of src/ and the
rooms of src/lib/; what is below them belongs to them.

Folders must have no circle.  Within a folder a circle is accepted if one of its files gives the reason in a comment that
names the whole circle, sorted:

    /* circle: parse print: a list prints its elements, which may be lists. */
"""
import collections
import pathlib
import re
import subprocess
import sys

REASON = re.compile(r"/\*\s*circle:\s*([\w ]+?)\s*:\s*\w.*?\*/", re.S)


def folder_of(room):
    parents = room.parts[:-1]
    return pathlib.PurePath(*parents[:2 if parents[0] == "lib" else 1])


def find_circles(arrows):
    """Tarjan's strongly connected components of more than one room; @p arrows: {room: {room, ...}}."""
    index, lowest, stack, circles = {}, {}, [], []

    def visit(room):
        index[room] = lowest[room] = len(index)
        stack.append(room)
        for other in sorted(arrows.get(room, ())):
            if other not in index:
                visit(other)
            if other in stack:
                lowest[room] = min(lowest[room], lowest[other])
        if lowest[room] == index[room]:
            at = stack.index(room)
            if len(stack) - at > 1:
                circles.append(sorted(stack[at:]))
            del stack[at:]

    for room in sorted(arrows):
        if room not in index:
            visit(room)
    return circles


def read_sources(source):
    """{room: [file, ...]} of all folders but src/selftest, which is another program."""
    rooms = collections.defaultdict(list)
    for path in sorted((source / "src").rglob("*.[ch]")):
        room = path.relative_to(source / "src").with_suffix("")
        if room.parts[0] != "selftest":
            rooms[room].append(path)
    return rooms


def add_includes(rooms, ties):
    for room, paths in rooms.items():
        for path in paths:
            for name in re.findall(r'^#\s*include\s+"([^"]+)"', path.read_text(), re.M):
                other = pathlib.PurePath(name).with_suffix("")
                if other in rooms and other != room:
                    ties[room, other].add(name)


def find_objects(build):
    """{room: object}: libtool names them STEM.o or TARGET-STEM.o, beside .libs/ or in it."""
    objects = {}
    for path in sorted((build / "src").rglob("*.o")):
        folder = path.relative_to(build / "src").parent
        if folder.name == ".libs":
            folder = folder.parent
        objects[folder / path.stem.rsplit("-", 1)[-1]] = path
    return objects


def has_source(rooms, room):
    return any(path.suffix == ".c" for path in rooms.get(room, ()))


def add_symbols(rooms, build, ties):
    """@return rooms that have a .c file, but no object"""
    objects = {room: path for room, path in find_objects(build).items() if has_source(rooms, room)}
    rooms_of_paths = {str(path): room for room, path in objects.items()}
    needed, defined = collections.defaultdict(set), {}
    listing = subprocess.run(["nm", "-A", "-P", *rooms_of_paths], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        place, _, rest = line.rpartition(": ")
        name, kind = rest.split()[:2]
        room = rooms_of_paths[place]
        if kind == "U":
            needed[room].add(name)
        elif kind.isupper():
            defined[name] = room
    for room, names in needed.items():
        for name in names:
            if defined.get(name, room) != room:
                ties[room, defined[name]].add(name)
    return [room for room, paths in rooms.items() if paths[0].suffix == ".c" and room not in objects]


def show_ties(circle, ties):
    for (room, other), names in sorted(ties.items()):
        if room in circle and other in circle:
            shown = sorted(names)
            print(f"  {room} -> {other}: {', '.join(shown[:6])}{f' and {len(shown) - 6} more' if len(shown) > 6 else ''}")


def read_reasons(rooms):
    """{(folder, "parse print"): file}"""
    return {(folder_of(room), names): path for room, paths in rooms.items() for path in paths
            for names in REASON.findall(path.read_text())}


def check_files(rooms, ties):
    reasons, wrong = read_reasons(rooms), 0
    arrows = {room: set() for room in rooms}
    for room, other in ties:
        if folder_of(room) == folder_of(other):
            arrows[room].add(other)
    circles = find_circles(arrows)
    for circle in circles:
        folder, names = folder_of(circle[0]), " ".join(room.name for room in circle)
        reason = reasons.pop((folder, names), None)
        verdict = f"reason in {reason.name}" if reason else "NO REASON"
        print(f"src/{folder}: circle of {len(circle)} files, {verdict}: {names}")
        show_ties(circle, ties)
        wrong += not reason
    for (folder, names), path in reasons.items():
        print(f"{path}: gives a reason for a circle that does not exist: {names}")
    return len(circles), wrong + len(reasons)


def check_folders(rooms, ties):
    arrows, folder_ties = {folder_of(room): set() for room in rooms}, collections.defaultdict(set)
    for (room, other), names in ties.items():
        if folder_of(room) != folder_of(other):
            arrows[folder_of(room)].add(folder_of(other))
            folder_ties[folder_of(room), folder_of(other)] |= names
    circles = find_circles(arrows)
    for circle in circles:
        print(f"circle of {len(circle)} folders: {' '.join(f'src/{name}' for name in circle)}")
        show_ties(circle, folder_ties)
    return len(circles)


def main():
    source, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    rooms, ties = read_sources(source), collections.defaultdict(set)
    add_includes(rooms, ties)
    blind = add_symbols(rooms, build, ties)
    for room in blind:
        print(f"src/{room}.c: no object file in {build}")
    between_files, wrong = check_files(rooms, ties)
    between_folders = check_folders(rooms, ties)
    print(f"{len(rooms)} rooms, {len(ties)} arrows, circles between files: {between_files}, between folders: {between_folders}")
    sys.exit(bool(blind or wrong or between_folders))


if __name__ == "__main__":
    main()
