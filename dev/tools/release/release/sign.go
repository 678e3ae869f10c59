package release

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// signer signs files with a key, or nothing without one.
type signer struct{ key *ecdsa.PrivateKey }

// readKey reads an ECDSA key in PEM, as PKCS #8 or as SEC 1. An empty name is no key. Keys that are encrypted, such as cosign's own,
// are refused with what to do: this program asks for no passwords.
func readKey(file string) (signer, error) {
	if file == "" {
		return signer{}, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return signer{}, fmt.Errorf("key: %w", err)
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return signer{}, fmt.Errorf("key %s: is no PEM file", file)
	}
	var parsed any
	switch block.Type {
	case "PRIVATE KEY":
		parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		parsed, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		err = fmt.Errorf("holds a %s; make one by: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256", block.Type)
	}
	if err != nil {
		return signer{}, fmt.Errorf("key %s: %w", file, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return signer{}, fmt.Errorf("key %s: is of type %T, want an ECDSA key", file, parsed)
	}
	return signer{key}, nil
}

// sign writes a signature beside each file: that of its SHA-256 by ECDSA, in ASN.1 and base64, which cosign verify-blob and openssl
// read. It is the same each time (RFC 6979), so that a release stays reproducible.
func (s signer) sign(folder string, names ...string) error {
	if s.key == nil {
		return nil
	}
	var errs []error
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			errs = append(errs, fmt.Errorf("sign %s: %w", name, err))
			continue
		}
		digest := sha256.Sum256(content)
		signature, err := s.key.Sign(nil, digest[:], crypto.SHA256)
		if err == nil {
			text := base64.StdEncoding.EncodeToString(signature) + "\n"
			err = os.WriteFile(filepath.Join(folder, name+signatureSuffix), []byte(text), 0o644)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("sign %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
