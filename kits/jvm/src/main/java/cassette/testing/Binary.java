package cassette.testing;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/** Finds the binary: of the environment variable, else of the class path, else on PATH. */
final class Binary {
    static final String VARIABLE = "CASSETTE_BINARY";

    private Binary() {}

    static Path find() {
        return find(System.getenv(), Binary::bundled);
    }

    interface Bundled {
        Optional<Path> find() throws IOException;
    }

    static Path find(Map<String, String> environment, Bundled bundled) {
        String named = environment.getOrDefault(VARIABLE, "");
        if (!named.isEmpty()) {
            Path path = Path.of(named).toAbsolutePath();
            if (!isProgram(path)) {
                throw new IllegalStateException(VARIABLE + ": expected a program, found " + named);
            }
            return path;
        }
        try {
            Optional<Path> found = bundled.find();
            if (found.isPresent()) {
                return found.get();
            }
        } catch (IOException error) {
            throw new UncheckedIOException("cannot extract the binary of Cassette", error);
        }
        for (String directory : environment.getOrDefault("PATH", "").split(File.pathSeparator)) {
            Path path = Path.of(directory, "cassette").toAbsolutePath();
            if (!directory.isEmpty() && isProgram(path)) {
                return path;
            }
        }
        throw new IllegalStateException("no binary of Cassette: the class path has none for " + platform()
                + ", and PATH has no `cassette`. Install one, or set " + VARIABLE + " to its path");
    }

    /** The name of this platform in the class path, such as linux-x86_64. */
    static String platform() {
        String system = System.getProperty("os.name").toLowerCase(Locale.ROOT).replace("mac os x", "macos");
        String machine = System.getProperty("os.arch").replace("amd64", "x86_64");
        return system + "-" + machine;
    }

    private static boolean isProgram(Path path) {
        return Files.isRegularFile(path) && Files.isExecutable(path);
    }

    /** Extracts the binary of the class path to the cache of this user, unless it is there. */
    private static Optional<Path> bundled() throws IOException {
        String prefix = "/META-INF/cassette/" + platform() + "/";
        String hash;
        try (InputStream stream = Binary.class.getResourceAsStream(prefix + "sha256")) {
            if (stream == null) {
                return Optional.empty();
            }
            hash = new String(stream.readAllBytes(), StandardCharsets.US_ASCII).strip();
        }
        if (!hash.matches("[0-9a-f]{64}")) {
            throw new IOException(prefix + "sha256: expected a checksum, found " + hash);
        }
        Path directory = cache().resolve("cassette");
        Path binary = directory.resolve("cassette-" + hash.substring(0, 16));
        if (isProgram(binary) && Files.getOwner(binary, LinkOption.NOFOLLOW_LINKS).getName().equals(user())) {
            return Optional.of(binary);
        }
        Files.createDirectories(directory, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        Path incomplete = Files.createTempFile(directory, "incomplete", "");
        try (InputStream stream = Binary.class.getResourceAsStream(prefix + "cassette")) {
            if (stream == null) {
                throw new IOException(prefix + "cassette is absent");
            }
            Files.copy(stream, incomplete, StandardCopyOption.REPLACE_EXISTING);
            Files.setPosixFilePermissions(incomplete, PosixFilePermissions.fromString("rwx------"));
            // Other processes see the whole file or none.
            Files.move(incomplete, binary, StandardCopyOption.ATOMIC_MOVE);
        } finally {
            Files.deleteIfExists(incomplete);
        }
        return Optional.of(binary);
    }

    private static String user() {
        return System.getProperty("user.name");
    }

    private static Path cache() {
        String cache = System.getenv("XDG_CACHE_HOME");
        return cache == null || cache.isEmpty() ? Path.of(System.getProperty("user.home"), ".cache") : Path.of(cache);
    }
}
