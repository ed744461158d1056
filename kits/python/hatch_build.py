"""Puts the binary that CASSETTE_BINARY names into the wheel, with the platform that the binary needs.

Without that variable, the wheel has no binary, and fits every platform.
"""

import os
import platform
import sysconfig

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Libraries that PEP 600 permits in wheels for manylinux, as far as the binary may need them.
PERMITTED = {"libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libgcc_s.so.1"}
LOADERS = ("ld-linux", "ld64")


class BinaryHook(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version, build_data):
        binary = os.environ.get("CASSETTE_BINARY")
        if not binary:
            return
        if not os.access(binary, os.X_OK):
            raise FileNotFoundError(f"CASSETTE_BINARY: expected a program, found {binary}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag(binary)}"
        build_data["shared_scripts"] = {os.path.abspath(binary): "cassette"}


def platform_tag(binary):
    """The platforms that a binary runs on: for Linux, by the versions of glibc's symbols that it needs (PEP 600)."""
    if platform.system() != "Linux":
        return sysconfig.get_platform().replace("-", "_").replace(".", "_")
    with open(binary, "rb") as file:
        elf = ELFFile(file)
        machine = elf.get_machine_arch().replace("x64", "x86_64").replace("AArch64", "aarch64")
        dynamic = elf.get_section_by_name(".dynamic")
        if dynamic is None or not any(tag.entry.d_tag == "DT_NEEDED" for tag in dynamic.iter_tags()):
            return f"musllinux_1_1_{machine}.manylinux_2_17_{machine}"  # Statically linked.
        libraries = {tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"}
        foreign = {name for name in libraries - PERMITTED if not name.startswith(LOADERS)}
        if foreign:
            raise ValueError(f"{binary} needs {', '.join(sorted(foreign))}, which other machines may not have")
        versions = [
            tuple(int(part) for part in auxiliary.name.removeprefix("GLIBC_").split(".")[:2])
            for section in elf.iter_sections()
            if isinstance(section, GNUVerNeedSection)
            for _, auxiliaries in section.iter_versions()
            for auxiliary in auxiliaries
            if auxiliary.name.startswith("GLIBC_2")
        ]
        major, minor = max(versions)
        return f"manylinux_{major}_{minor}_{machine}"
