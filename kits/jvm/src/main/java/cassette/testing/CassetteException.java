package cassette.testing;

/** A server that does not start, or a statement that fails. The message contains the server's reason. */
public final class CassetteException extends RuntimeException {
    private static final long serialVersionUID = 1;

    CassetteException(String message) {
        super(message);
    }

    CassetteException(String message, Throwable cause) {
        super(message, cause);
    }
}
