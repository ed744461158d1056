import com.datastax.oss.driver.api.core.*;
import com.datastax.oss.driver.api.core.config.*;

import java.io.*;
import java.net.*;
import java.nio.file.*;
import java.security.*;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.*;
import java.time.*;
import java.util.*;
import javax.net.ssl.*;

/**
 * The Java driver, unmodified, against a server with passwords: HOST PORT USER PASSWORD [CA [PEM]].
 *
 * <p>Connects with a password; with CA over TLS; with PEM, a file with a key and a certificate, by
 * mutual TLS. Prints "ok" after a write and a read, or the errors of the connection.
 */
public class SecuredCheck {
  private static final char[] NO_PASSWORD = new char[0];

  public static void main(String[] args) throws Exception {
    var builder = CqlSession.builder()
        .addContactPoint(new InetSocketAddress(args[0], Integer.parseInt(args[1])))
        .withLocalDatacenter("datacenter1")
        .withAuthCredentials(args[2], args[3])
        .withConfigLoader(DriverConfigLoader.programmaticBuilder()
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(20))
            .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, Duration.ofSeconds(20))
            .build());
    if (args.length > 4) builder = builder.withSslContext(tls(args[4], args.length > 5 ? args[5] : null));
    try (CqlSession session = builder.build()) {
      session.execute(session.prepare("INSERT INTO app.t (k, v) VALUES (?, ?)").bind("java", 7));
      int value = session.execute(session.prepare("SELECT v FROM app.t WHERE k = ?").bind("java")).one().getInt("v");
      if (value != 7) throw new AssertionError("expected 7, found " + value);
    } catch (AllNodesFailedException e) {
      System.out.println("refused: " + e.getAllErrors());
      System.exit(1);
    }
    System.out.println("ok");
  }

  static SSLContext tls(String authority, String pem) throws Exception {
    var trusted = KeyStore.getInstance("PKCS12");
    trusted.load(null, null);
    trusted.setCertificateEntry("ca", certificate(authority));
    var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(trusted);
    var keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    if (pem != null) {
      var own = KeyStore.getInstance("PKCS12");
      own.load(null, null);
      own.setKeyEntry("client", key(pem), NO_PASSWORD, new Certificate[] {certificate(pem)});
      keys.init(own, NO_PASSWORD);
    }
    var context = SSLContext.getInstance("TLS");
    context.init(pem == null ? null : keys.getKeyManagers(), trust.getTrustManagers(), null);
    return context;
  }

  static byte[] section(String file, String label) throws IOException {
    String text = Files.readString(Path.of(file));
    String begin = "-----BEGIN " + label + "-----";
    int start = text.indexOf(begin) + begin.length();
    return Base64.getMimeDecoder().decode(text.substring(start, text.indexOf("-----END " + label, start)));
  }

  static Certificate certificate(String file) throws Exception {
    var bytes = new ByteArrayInputStream(section(file, "CERTIFICATE"));
    return CertificateFactory.getInstance("X.509").generateCertificate(bytes);
  }

  static PrivateKey key(String file) throws Exception {
    return KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(section(file, "PRIVATE KEY")));
  }
}
