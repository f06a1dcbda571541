// Copyright (c) 2026, lockredis contributors

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// An Authority is a certificate authority of this run, with one certificate for all
// its servers.
type Authority struct {
	caFile, certFile, keyFile string
}

func newAuthority(dir string) (*Authority, error) {
	a := &Authority{filepath.Join(dir, "ca.crt"), filepath.Join(dir, "server.crt"),
		filepath.Join(dir, "server.key")}

	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true,
		Subject:               pkix.Name{CommonName: "torture authority"},
		NotBefore:             time.Now().Add(-24 * time.Hour),
		NotAfter:              time.Now().Add(1000 * 24 * time.Hour),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true}
	if err := writeCertificate(a.caFile, ca, ca, caKey, caKey); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	server := &x509.Certificate{SerialNumber: big.NewInt(2),
		Subject:     pkix.Name{CommonName: "torture"},
		NotBefore:   ca.NotBefore,
		NotAfter:    ca.NotAfter,
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP("10.177.0.1")}}
	for i := 1; i < 8; i++ {
		server.IPAddresses = append(server.IPAddresses, net.ParseIP(fmt.Sprintf("10.178.0.%d", i)))
	}
	if err := writeCertificate(a.certFile, server, ca, key, caKey); err != nil {
		return nil, err
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return a, os.WriteFile(a.keyFile,
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}), 0o600)
}

func writeCertificate(file string, cert, issuer *x509.Certificate, key, issuerKey *ecdsa.PrivateKey) error {
	data, err := x509.CreateCertificate(rand.Reader, cert, issuer, &key.PublicKey, issuerKey)
	if err != nil {
		return err
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: data}), 0o600)
}

// redisConfig has a Redis listen there, too.  Clients need no certificate.
func (a *Authority) redisConfig(port int) []string {
	return []string{fmt.Sprintf("tls-port %d", port), "tls-cert-file " + a.certFile,
		"tls-key-file " + a.keyFile, "tls-ca-cert-file " + a.caFile, "tls-auth-clients no"}
}

// javaOptions have a Java program trust it.
func (a *Authority) javaOptions() ([]string, error) {
	store := a.caFile + ".p12"

	err := run("keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", a.caFile,
		"-keystore", store, "-storetype", "PKCS12", "-storepass", "changeit")
	return []string{"-Djavax.net.ssl.trustStore=" + store,
		"-Djavax.net.ssl.trustStorePassword=changeit"}, err
}
