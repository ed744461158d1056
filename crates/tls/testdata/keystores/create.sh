#!/usr/bin/env bash
# Creates the keystores of this directory, for the tests: one key and its chain of two certificates
# in each format that keytool (JDK 17) and OpenSSL 3 write. The passwords are "changeit".
set -euo pipefail
cd "$(dirname "$0")"
rm -f -- *.pem *.p12 *.jks *.jceks
days=36500
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca-key.pem -out ca.pem \
    -days $days -subj /CN=authority 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out request.csr \
    -subj /CN=localhost 2>/dev/null
openssl x509 -req -in request.csr -CA ca.pem -CAkey ca-key.pem -out certificate.pem -days $days \
    -extfile <(printf 'subjectAltName=DNS:localhost\nbasicConstraints=CA:false') 2>/dev/null
rm request.csr ca-key.pem

# PEM with encrypted keys.
openssl pkcs8 -topk8 -in key.pem -passout pass:changeit -v2 aes-256-cbc -out aes.pem
openssl pkcs8 -topk8 -in key.pem -passout pass:changeit -v2 des3 -v2prf hmacWithSHA1 -out des.pem
openssl pkcs8 -topk8 -in key.pem -passout pass:changeit -scrypt -out scrypt.pem
for file in aes des scrypt; do cat certificate.pem ca.pem >>$file.pem; done

# PKCS #12 of OpenSSL.
export="openssl pkcs12 -export -inkey key.pem -in certificate.pem -certfile ca.pem"
$export -passout pass:changeit -name server -out openssl.p12
$export -passout pass:changeit -name server -legacy -out openssl-legacy.p12
$export -passout pass:changeit -name server -keypbe PBE-SHA1-RC2-128 -certpbe PBE-SHA1-RC2-40 \
    -provider legacy -provider default -macalg sha512 -out openssl-rc2.p12
$export -passout pass: -keypbe NONE -certpbe NONE -nomac -out openssl-plain.p12
openssl pkcs12 -export -nokeys -in ca.pem -passout pass:changeit -out openssl-trust.p12

# Those of Java.
import="keytool -importkeystore -noprompt -srckeystore openssl.p12 -srcstorepass changeit -deststorepass changeit"
$import -destkeystore java.p12 -deststoretype PKCS12 2>/dev/null
$import -destkeystore java-legacy.p12 -deststoretype PKCS12 -J-Dkeystore.pkcs12.legacy 2>/dev/null
$import -destkeystore java.jks -deststoretype JKS 2>/dev/null
$import -destkeystore java.jceks -deststoretype JCEKS 2>/dev/null
for format in PKCS12 JKS; do
    keytool -importcert -noprompt -file ca.pem -alias ca -keystore "trust.${format,,}" \
        -storetype $format -storepass changeit 2>/dev/null
done
mv trust.pkcs12 java-trust.p12
mv trust.jks java-trust.jks

# Secret keys, as transparent data encryption uses them.
for size in 128 256; do
    keytool -genseckey -alias "Testing:$size" -keyalg AES -keysize $size -storetype PKCS12 \
        -keystore secret.p12 -storepass changeit 2>/dev/null
done

# A certificate with a SPIFFE ID, the second of two URIs, in DER.
openssl req -x509 -key key.pem -subj "/CN=app" -days 36500 -outform DER -out spiffe.der \
    -addext 'subjectAltName=URI:https://x/y,URI:spiffe://example.com/app' -addext extendedKeyUsage=clientAuth
