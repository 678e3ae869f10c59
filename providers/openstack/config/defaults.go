package config

import "time"

// The defaults that other packages and the documentation name.
const (
	// DefaultRequestTimeout is the deadline of a request: 60 s, as upstream has it.
	DefaultRequestTimeout = time.Minute
	// MaxRequestTimeout is the longest deadline of a request that makes sense.
	MaxRequestTimeout = 10 * time.Minute
)

// Defaults returns the config of an empty file: what upstream's manager takes where nothing is said.
func Defaults() Config {
	return Config{
		LoadBalancer: LoadBalancer{
			Enabled: true, LBProvider: "amphora", CascadeDelete: true, MonitorDelay: 5 * time.Second, MonitorTimeout: 3 * time.Second,
			MonitorMaxRetries: 1, MonitorMaxRetriesDown: 3, IngressHostnameSuffix: "nip.io", MaxSharedLB: 2, ContainerStore: "barbican",
		},
		Metadata: Metadata{SearchOrder: "configDrive,metadataService", RequestTimeout: DefaultRequestTimeout},
	}
}

// complete sets what depends on other options.
func (c *Config) complete() {
	lb := &c.LoadBalancer
	if lb.LBProvider == "octavia" {
		lb.LBProvider = "amphora"
	}
	if lb.LBMethod == "" {
		lb.LBMethod = "ROUND_ROBIN"
		if lb.LBProvider == "ovn" { // which knows no other
			lb.LBMethod = "SOURCE_IP_PORT"
		}
	}
	if c.Metadata.RequestTimeout == 0 {
		c.Metadata.RequestTimeout = DefaultRequestTimeout
	}
}
