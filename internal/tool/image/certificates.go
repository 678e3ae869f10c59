package image

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
)

// systemCertificates are where Linux distributions and macOS keep the root certificates, as crypto/x509 looks for them.
var systemCertificates = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// ErrNoCertificates says that this machine has no root certificates in any of the usual places.
var ErrNoCertificates = errors.New("no root certificates in any of " + strings.Join(systemCertificates, ", "))

// Certificates reads PEM root certificates from a file, or this machine's trusted certificates if no file is named. It returns the path of the file,
// the number of certificates, and their PEM blocks without the text between them.
func Certificates(file string) (from string, count int, content []byte, err error) {
	candidates := systemCertificates
	if file != "" {
		candidates = []string{file}
	}
	for _, from = range candidates {
		data, err := os.ReadFile(from)
		if err != nil && file == "" {
			continue
		}
		if err != nil {
			return from, 0, nil, fmt.Errorf("root certificates: %w", err)
		}
		if count, content, err = certificatesIn(data); err != nil {
			return from, 0, nil, fmt.Errorf("root certificates %s: %w", from, err)
		}
		return from, count, content, nil
	}
	return "", 0, nil, ErrNoCertificates
}

func certificatesIn(data []byte) (int, []byte, error) {
	var content bytes.Buffer
	count := 0
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return 0, nil, fmt.Errorf("PEM block %d is a %s, not a CERTIFICATE", count+1, block.Type)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return 0, nil, fmt.Errorf("certificate %d: %w", count+1, err)
		}
		count++
		if err := pem.Encode(&content, &pem.Block{Type: block.Type, Bytes: block.Bytes}); err != nil {
			return 0, nil, err
		}
	}
	if count == 0 {
		return 0, nil, errors.New("holds no PEM certificate")
	}
	return count, content.Bytes(), nil
}
