"""A kernel that makes the calls of a program of `brute_disks`, and the disks that a crash of it may leave."""

from dataclasses import replace

from brute_disks import Call, Disk

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call as KernelCall
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel, Rejected
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.persistence.legal_disks import chosen_disk, legal_disks
from tornproof.harness.simulator.persistence.legal_files import Limits
from tornproof.harness.simulator.persistence.models import Model, choice_of
from tornproof.impl.storage.interface import OpenMode

EVERYTHING = Limits(file_count=1 << 14, names_count=1 << 14, disk_count=1 << 17)
KINDS = {
    "mkdir": CallKind.MKDIR,
    "rmdir": CallKind.RMDIR,
    "rename": CallKind.RENAME,
    "link": CallKind.LINK,
    "unlink": CallKind.UNLINK,
    "syncdir": CallKind.SYNC_DIRECTORY,
}


def machine() -> Kernel:
    """Return a kernel with the durable directory `r`."""
    return Kernel.of(DiskImage({}, frozenset({"r"})))


def run(kernel: Kernel, call: Call) -> bool:
    """Make a call of a program; return whether it was possible."""
    kind, path, *rest = call

    def make(kind: CallKind, **fields: object) -> bool:
        made = KernelCall(kind=kind, path=str(path), **fields)  # type: ignore[arg-type]
        return not isinstance(apply(kernel, 0, made), Rejected)

    if kind in KINDS:
        return make(KINDS[str(kind)], target_path=str(rest[0]) if rest else "")
    mode = OpenMode.NEW if kind == "create" else OpenMode.EXISTING
    if not make(CallKind.OPEN_FOR_WRITING, file=1, mode=mode):
        return False
    match kind:
        case "write":
            make(CallKind.PWRITE, file=1, offset_bytes=rest[0], content=rest[1])
        case "truncate":
            make(CallKind.TRUNCATE, file=1, size_bytes=rest[0])
        case "fsync" | "fdatasync":
            make(CallKind.FSYNC if kind == "fsync" else CallKind.FDATASYNC, file=1)
        case "msync":
            size_bytes = min(int(str(rest[0])), len(kernel.files[kernel.entry(str(path))].content))
            make(CallKind.MAP, file=1, mapping=2, size_bytes=size_bytes)
            make(CallKind.MSYNC, file=1, mapping=2)
            make(CallKind.UNMAP, file=1, mapping=2)
    return make(CallKind.CLOSE, file=1)


def tiny(model: Model) -> Model:
    """Return a model whose blocks are so small that all disks of a file of some bytes can be tried."""
    sizes = {None: None, 8: 1, 512: 2, 4096: 4}
    return replace(model, block_bytes=sizes[model.block_bytes], stale_block_bytes=sizes[model.stale_block_bytes])


def left(kernel: Kernel, model: Model) -> set[Disk]:
    """Return every disk that the simulator says a crash may leave; each is also made again from its choice."""
    found = set()
    legal = legal_disks(kernel, model, EVERYTHING)
    assert legal.is_complete
    for picked in legal:
        image = picked.disk.kernel().image()
        found.add((frozenset(image.files.items()), frozenset(image.directories - {"/", "."})))
        assert chosen_disk(kernel, model, choice_of(legal.choice(picked).text())) == picked.disk
    return found
