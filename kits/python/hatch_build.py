"""Puts the binary of CASSETTE_BINARY and the module of CASSETTE_MODULE into the wheel, with the platform that they need.

Without these variables, the wheel has neither, and fits every platform.
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
        binary, module = os.environ.get("CASSETTE_BINARY"), os.environ.get("CASSETTE_MODULE")
        if binary and not os.access(binary, os.X_OK):
            raise FileNotFoundError(f"CASSETTE_BINARY: expected a program, found {binary}")
        if module and not os.path.isfile(module):
            raise FileNotFoundError(f"CASSETTE_MODULE: expected a library, found {module}")
        files = [path for path in (binary, module) if path]
        if not files:
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"{'cp39-abi3' if module else 'py3-none'}-{platform_tag(files)}"
        if binary:
            build_data["shared_scripts"] = {os.path.abspath(binary): "cassette"}
        if module:
            build_data["force_include"][os.path.abspath(module)] = "cassette/_embedded.abi3.so"


def platform_tag(files):
    """The platforms that all files run on: for Linux, by the versions of glibc's symbols that they need (PEP 600)."""
    if platform.system() != "Linux":
        return sysconfig.get_platform().replace("-", "_").replace(".", "_")
    machines, versions = zip(*map(requirements, files))
    if not any(versions):
        return f"musllinux_1_1_{machines[0]}.manylinux_2_17_{machines[0]}"  # Statically linked.
    major, minor = max(version for version in versions if version)
    return f"manylinux_{major}_{minor}_{machines[0]}"


def requirements(path):
    """The machine of a file, and the version of glibc that it needs; None if it is linked statically."""
    with open(path, "rb") as file:
        elf = ELFFile(file)
        machine = elf.get_machine_arch().replace("x64", "x86_64").replace("AArch64", "aarch64")
        dynamic = elf.get_section_by_name(".dynamic")
        if dynamic is None or not any(tag.entry.d_tag == "DT_NEEDED" for tag in dynamic.iter_tags()):
            return machine, None
        libraries = {tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"}
        foreign = {name for name in libraries - PERMITTED if not name.startswith(LOADERS)}
        if foreign:
            raise ValueError(f"{path} needs {', '.join(sorted(foreign))}, which other machines may not have")
        versions = [
            tuple(int(part) for part in auxiliary.name.removeprefix("GLIBC_").split(".")[:2])
            for section in elf.iter_sections()
            if isinstance(section, GNUVerNeedSection)
            for _, auxiliaries in section.iter_versions()
            for auxiliary in auxiliaries
            if auxiliary.name.startswith("GLIBC_2")
        ]
        return machine, max(versions)
