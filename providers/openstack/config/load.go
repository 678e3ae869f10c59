package config

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/providers/internal/configsource"
)

// RegionalVariable is the environment variable that has provider IDs name the region, if it is "true".
const RegionalVariable = "OS_CCM_REGIONAL"

// Parse returns the config in data with what the files say that it names. Its error names everything that is wrong with its section,
// its option and, where it can be no secret, its value.
func Parse(data []byte) (*Config, error) { return parseWith(configsource.NewFiles(), data) }

// parseWith is Parse, and notes which files are read.
func parseWith(files *configsource.Files, data []byte) (*Config, error) {
	p := parse(data)
	config := &p.config
	config.TLS = &tls.Config{}
	config.Regional = os.Getenv(RegionalVariable) == "true"
	errs := p.errs
	if config.Global.UseClouds {
		if err := config.Global.fromClouds(files); err != nil {
			// What clouds.yaml would have had is not missed.
			return nil, invalid(append(errs, field.Invalid(field.NewPath("[Global]", "use-clouds"), true, err.Error())))
		}
	}
	config.complete()
	for _, err := range config.validate() {
		if !p.misfits[err.Field] {
			errs = append(errs, err)
		}
	}
	errs = append(errs, config.readTLS(files)...)
	if len(errs) > 0 {
		return nil, invalid(errs)
	}
	config.warn()
	return config, nil
}

func invalid(errs field.ErrorList) error {
	return fmt.Errorf("invalid cloud config: %w", errs.ToAggregate())
}

// readTLS reads the files of certificates.
func (c *Config) readTLS(files *configsource.Files) field.ErrorList {
	at := field.NewPath("[Global]")
	var errs field.ErrorList
	c.TLS = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.Global.TLSInsecure}
	if file := c.Global.CAFile; file != "" {
		pem, err := files.Read(file)
		pool := x509.NewCertPool()
		if err == nil && !pool.AppendCertsFromPEM(pem) {
			err = errors.New("there is no certificate in it")
		}
		if err != nil {
			errs = append(errs, field.Invalid(at.Child("ca-file"), message.Line(file, maxShown), err.Error()))
		}
		c.TLS.RootCAs = pool
	}
	if c.Global.CertFile != "" && c.Global.KeyFile != "" {
		pair, err := keyPair(files, c.Global.CertFile, c.Global.KeyFile)
		if err != nil {
			errs = append(errs, field.Invalid(at.Child("cert-file"), message.Line(c.Global.CertFile, maxShown), err.Error()))
		}
		c.TLS.Certificates = []tls.Certificate{pair}
	}
	return errs
}

func keyPair(files *configsource.Files, certFile, keyFile string) (tls.Certificate, error) {
	certificate, err := files.Read(certFile)
	key, keyErr := files.Read(keyFile)
	if err := cmp.Or(err, keyErr); err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, key)
}

func sortedNames(classes map[string]LoadBalancerClass) []string {
	return slices.Sorted(maps.Keys(classes))
}
