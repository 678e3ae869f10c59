package sim

import (
	"crypto/x509"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/internal/strict"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// ConfigAPIVersion and ConfigKind mark a cloud config of this provider.
const (
	ConfigAPIVersion = "sim.mooring.dev/v1alpha1"
	ConfigKind       = "CloudConfig"
)

// The bounds of Config.RequestTimeout.
const (
	DefaultRequestTimeout = 10 * time.Second
	maxRequestTimeout     = 5 * time.Minute
)

//go:generate go -C ../../dev/tools/schema run . providers/sim

// Config is the cloud config file of the provider, in YAML.
type Config struct {
	// APIVersion and Kind are ConfigAPIVersion and ConfigKind.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Endpoint is the URL of the cloud without /v1. Required.
	Endpoint string `json:"endpoint"`
	// TokenFile is the file with the bearer token. It is read for every call. Required.
	TokenFile string `json:"tokenFile"`
	// CAFile is a file with the PEM certificates that the cloud's is verified with; empty means those of the system.
	CAFile string `json:"caFile,omitempty"`
	// ClusterName marks what belongs to this cluster in the cloud: the tag of load balancers and the owner of routes. When it
	// is empty, the name from --cluster-name is used, and the cluster counts as untagged (see --allow-untagged-cloud).
	ClusterName string `json:"clusterName,omitempty"`
	// Region is where load balancers are created. Instances are found in every region. Required.
	Region string `json:"region"`
	// Watch says that instances are watched, so they need not be listed again and again.
	Watch bool `json:"watch,omitempty"`
	// MaxRoutes is how many routes the cloud takes for this cluster; zero means that it is not known.
	MaxRoutes int `json:"maxRoutes,omitempty"`
	// RouteWrites is how many calls that change routes may be made at once; zero means as many as the manager likes.
	RouteWrites int `json:"routeWrites,omitempty"`
	// RouteBatch is how many changes of routes are made by one call, up to api.MaxRouteChanges; zero means that each is a call.
	RouteBatch int `json:"routeBatch,omitempty"`
	// ChangeTargets says that targets of load balancers are changed by a difference.
	ChangeTargets bool `json:"changeTargets,omitempty"`
	// NodeGroups are groups of instances that are made and deleted on demand, for the Cluster Autoscaler.
	NodeGroups []NodeGroup `json:"nodeGroups,omitempty"`
	// RequestTimeout is the deadline of each call of the cloud; zero means DefaultRequestTimeout.
	RequestTimeout metav1.Duration `json:"requestTimeout,omitzero"`
}

// ReadConfig reads a cloud config. Its error names everything that is wrong, with the path and the value of each field.
func ReadConfig(from io.Reader) (Config, error) {
	var config Config
	if from == nil {
		return config, fmt.Errorf("provider %s: a cloud config is required: set --cloud-config", ProviderName)
	}
	data, err := io.ReadAll(from)
	if err != nil {
		return config, fmt.Errorf("reading the cloud config: %w", err)
	}
	if errs := decodeConfig(data, &config, true); len(errs) > 0 {
		return config, fmt.Errorf("invalid cloud config: %w", errs.ToAggregate())
	}
	if config.RequestTimeout.Duration == 0 {
		config.RequestTimeout.Duration = DefaultRequestTimeout
	}
	return config, nil
}

// ExamineConfig returns everything that is wrong with a cloud config but what its files hold, and those files by their fields: they may
// be elsewhere.
func ExamineConfig(data []byte) (field.ErrorList, map[string]string) {
	var config Config
	errs := decodeConfig(data, &config, false)
	files := map[string]string{}
	for name, path := range map[string]string{"tokenFile": config.TokenFile, "caFile": config.CAFile} {
		if path != "" {
			files[name] = path
		}
	}
	return errs, files
}

// decodeConfig decodes a config and returns everything that is wrong with it, on request with what its files hold as well.
func decodeConfig(data []byte, config *Config, withFiles bool) field.ErrorList {
	decoded := strict.YAML(data, config)
	return strict.Merge(decoded, validateConfig(*config, withFiles))
}

func validateConfig(config Config, withFiles bool) field.ErrorList {
	var errs field.ErrorList
	if config.APIVersion != ConfigAPIVersion {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), config.APIVersion, []string{ConfigAPIVersion}))
	}
	if config.Kind != ConfigKind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), config.Kind, []string{ConfigKind}))
	}
	errs = append(errs, validateEndpoint(field.NewPath("endpoint"), config.Endpoint)...)
	errs = append(errs, validateTokenFile(field.NewPath("tokenFile"), config.TokenFile, withFiles)...)
	if config.CAFile != "" && withFiles {
		if _, err := readCertificates(config.CAFile); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("caFile"), config.CAFile, err.Error()))
		}
	}
	if config.ClusterName != "" {
		for _, message := range validation.IsDNS1123Subdomain(config.ClusterName) {
			errs = append(errs, field.Invalid(field.NewPath("clusterName"), config.ClusterName, message))
		}
	}
	if config.Region == "" {
		errs = append(errs, field.Required(field.NewPath("region"), "where load balancers are created"))
	}
	if config.MaxRoutes < 0 {
		errs = append(errs, field.Invalid(field.NewPath("maxRoutes"), config.MaxRoutes, "must not be negative"))
	}
	if config.RouteWrites < 0 {
		errs = append(errs, field.Invalid(field.NewPath("routeWrites"), config.RouteWrites, "must not be negative"))
	}
	if config.RouteBatch < 0 || config.RouteBatch > api.MaxRouteChanges {
		errs = append(errs, field.Invalid(field.NewPath("routeBatch"), config.RouteBatch, fmt.Sprintf("must be 0 to %d", api.MaxRouteChanges)))
	}
	errs = append(errs, validateNodeGroups(config)...)
	if d := config.RequestTimeout.Duration; d < 0 || d > maxRequestTimeout {
		errs = append(errs, field.Invalid(field.NewPath("requestTimeout"), d.String(), "must be between 0s and "+maxRequestTimeout.String()))
	}
	return errs
}

func validateEndpoint(path *field.Path, endpoint string) field.ErrorList {
	const example = "must be a URL such as https://cloud.example:8443"
	if endpoint == "" {
		return field.ErrorList{field.Required(path, example)}
	}
	parsed, err := url.Parse(endpoint)
	switch {
	case err != nil, parsed.Scheme != "http" && parsed.Scheme != "https", parsed.Host == "":
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, example)} // it may hold a password
	case parsed.User != nil:
		return field.ErrorList{field.Invalid(path, parsed.Redacted(), "must not contain credentials: use tokenFile")}
	case parsed.RawQuery != "" || parsed.Fragment != "":
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "must not have a query or a fragment")} // it may be a token
	default:
		return nil
	}
}

func validateTokenFile(path *field.Path, name string, read bool) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "the file with the bearer token")}
	}
	if !read {
		return nil
	}
	if _, err := api.TokenFile(name)(); err != nil {
		return field.ErrorList{field.Invalid(path, name, err.Error())}
	}
	return nil
}

func readCertificates(name string) (*x509.CertPool, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s holds no PEM certificate", name)
	}
	return pool, nil
}
