//! Sets the name by which the dynamic linker finds the library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        // The number changes with the binary interface.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcassette.so.0");
    }
}
