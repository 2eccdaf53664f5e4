#!/bin/sh
# Writes the certificates of the tests anew: those of an authority's member, and of a stranger who knows that authority,
# but has his certificate from another one.
# usage: make.sh FOLDER
set -eu
cd "$1"
for who in member stranger; do
  mkdir -p $who
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj "/CN=authority of $who" \
    -keyout authority.key -out $who.authority
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$who" -keyout $who/key.pem -out request
  printf 'subjectAltName = DNS:localhost, IP:127.0.0.1\n' > extensions
  openssl x509 -req -in request -CA $who.authority -CAkey authority.key -CAcreateserial -days 36500 \
    -extfile extensions -out $who/certificate.pem
done
cp member.authority member/authority.pem
cp member.authority stranger/authority.pem
rm -f ./*.authority ./*.srl authority.key request extensions
