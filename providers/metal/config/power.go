package config

import (
	"cmp"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The defaults of Power.
const (
	DefaultPowerInterval     = 10 * time.Second
	DefaultPowerTimeout      = 5 * time.Second
	DefaultPowerConcurrency  = 16
	DefaultPowerStaleAfter   = 3
	DefaultOutOfServiceAfter = 30 * time.Second
)

// Power says how the power state of machines is read, and what follows from it.
type Power struct {
	// Interval is the time between two readings of one machine's power state. Default: 10s.
	Interval metav1.Duration `json:"interval,omitzero"`
	// Timeout is how long one reading may take. Default: 5s.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// Concurrency is how many management controllers are asked at once, at most half of them after a failure. Default: 16.
	Concurrency int `json:"concurrency,omitempty"`
	// StaleAfter is after how many intervals without a reading a power state counts as unknown. Default: 3.
	StaleAfter int `json:"staleAfter,omitempty"`
	// OutOfService is the taint by which volumes and StatefulSet pods leave a machine that is off.
	OutOfService OutOfService `json:"outOfService,omitzero"`
}

// OutOfService says whether the nodes of machines that are off get the taint node.kubernetes.io/out-of-service (KEP-2268).
type OutOfService struct {
	// Enabled says that they do. Default: false.
	Enabled bool `json:"enabled,omitempty"`
	// After is how long a machine has to have been seen to be off, longer than a restart takes. Default: 30s.
	After metav1.Duration `json:"after,omitzero"`
	// Fence turns off machines whose nodes are silent: the taint can follow then.
	Fence Fence `json:"fence,omitzero"`
}

// BMC is the management controller of a machine. Exactly one of redfish, ipmi and command says how it is asked.
type BMC struct {
	// Redfish asks by HTTPS and JSON.
	Redfish *Redfish `json:"redfish,omitempty"`
	// IPMI asks by IPMI 2.0 over UDP, with RMCP+ (lanplus).
	IPMI *IPMI `json:"ipmi,omitempty"`
	// Command runs a program that asks in its own way.
	Command *Command `json:"command,omitempty"`
	// Credentials are who asks, by Redfish or IPMI. Default: those of the defaults.
	Credentials *Credentials `json:"credentials,omitempty"`
	// PowerOffCredentials are who turns the machine off for power.outOfService.fence, and off and on for its node group. Default: those of
	// the defaults, or else Credentials.
	PowerOffCredentials *Credentials `json:"powerOffCredentials,omitempty"`
	// SystemUUID is the UUID that the controller gives for its system, if firmware makes that another one. Default: the machine's.
	SystemUUID string `json:"systemUUID,omitempty"`
	// AllowUnverified lets pods and volumes leave the machine by the taint out-of-service although the controller gives no system UUID. Such
	// a controller never turns the machine off. Default: false.
	AllowUnverified bool `json:"allowUnverified,omitempty"`
}

// BMCDefaults are what management controllers have in common.
type BMCDefaults struct {
	// Credentials are those of a BMC that names none.
	Credentials *Credentials `json:"credentials,omitempty"`
	// PowerOffCredentials are those of a BMC that names none.
	PowerOffCredentials *Credentials `json:"powerOffCredentials,omitempty"`
	// CAFile is the file for a Redfish service that names none.
	CAFile string `json:"caFile,omitempty"`
}

// Credentials are a user name and a password. The files are read whenever they are needed: a change counts at once; white
// space around their content is left out.
type Credentials struct {
	// Username is the name of the user. Either this or usernameFile is required.
	Username string `json:"username,omitempty"`
	// UsernameFile is a file with the name of the user.
	UsernameFile string `json:"usernameFile,omitempty"`
	// PasswordFile is a file with the password. Required.
	PasswordFile string `json:"passwordFile"`
}

// RedfishAuth is how requests to a Redfish service are authenticated.
type RedfishAuth string

// The ways that there are (Redfish DSP0266, 13.3).
const (
	RedfishBasic   RedfishAuth = "Basic"
	RedfishSession RedfishAuth = "Session"
)

// Redfish is a Redfish service (DSP0266).
type Redfish struct {
	// Endpoint is the URL of the service without /redfish/v1, such as https://10.0.0.10. It may begin with http only with
	// insecureSkipVerify. Required.
	Endpoint string `json:"endpoint"`
	// SystemID is the ID of the system at /redfish/v1/Systems. Default: the one whose UUID is the machine's system UUID, or else the only
	// one. Required where several machines have one service.
	SystemID string `json:"systemID,omitempty"`
	// Auth is how to log in: Basic sends the password with every request, Session sends it once. Default: Session.
	Auth RedfishAuth `json:"auth,omitempty"`
	// CAFile is a file with the PEM certificates that the service's is verified with. Default: the file of the defaults, or else the system's certificates.
	CAFile string `json:"caFile,omitempty"`
	// InsecureSkipVerify says that anybody may answer for the service and learn the password. Default: false.
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
	// LegacyTLS allows TLS 1.0 and 1.1 and the cipher suites of old firmware: with the key of the service, recorded traffic can be read.
	// Default: false.
	LegacyTLS bool `json:"legacyTLS,omitempty"`
}

// IPMI is a management controller that speaks IPMI 2.0.
type IPMI struct {
	// Address is a host or host:port. The default port is 623. Required.
	Address string `json:"address"`
	// CipherSuite is the ID of the cipher suite, 3 or 17. Default: the best of them that the controller offers.
	CipherSuite int `json:"cipherSuite,omitempty"`
}

// Command is a program that says whether a machine is on. It prints on, off or unknown, and behind it the system UUID if the controller
// gives one, and exits with 0; anything else means unknown. A program that prints MACHINE_SYSTEM_UUID verifies nothing.
//
// Each program is an absolute path with arguments. All get the variables MACHINE_NAME, MACHINE_ID, MACHINE_PROVIDER_ID,
// MACHINE_SYSTEM_UUID, MACHINE_ADDRESS (the first internal address) and PATH. A program that changes the power exits with 0 once the controller has taken the
// command.
type Command struct {
	// Argv reads the power state. Required.
	Argv []string `json:"argv"`
	// PowerOff turns the machine off by force, where power.outOfService.fence is enabled or the machine is in a node group.
	PowerOff []string `json:"powerOff,omitempty"`
	// ShutDown asks the operating system to shut down, where the machine is in a node group. Default: none; force follows when the time for
	// that is over.
	ShutDown []string `json:"shutDown,omitempty"`
	// PowerOn turns the machine on, where it is in a node group.
	PowerOn []string `json:"powerOn,omitempty"`
	// Timeout is how long it may take before it is killed with all that it started. Default: power's.
	Timeout metav1.Duration `json:"timeout,omitzero"`
}

func (p *Power) setDefaults() {
	p.Interval.Duration = cmp.Or(p.Interval.Duration, DefaultPowerInterval)
	p.Timeout.Duration = cmp.Or(p.Timeout.Duration, DefaultPowerTimeout)
	p.Concurrency = cmp.Or(p.Concurrency, DefaultPowerConcurrency)
	p.StaleAfter = cmp.Or(p.StaleAfter, DefaultPowerStaleAfter)
	p.OutOfService.After.Duration = cmp.Or(p.OutOfService.After.Duration, DefaultOutOfServiceAfter)
	p.OutOfService.Fence.setDefaults()
}

func (p *Power) validate(path *field.Path) field.ErrorList {
	errs := between(path.Child("interval"), p.Interval.Duration, time.Second, time.Hour)
	errs = append(errs, between(path.Child("timeout"), p.Timeout.Duration, 100*time.Millisecond, time.Minute)...)
	errs = append(errs, p.OutOfService.validate(path.Child("outOfService"))...)
	if p.Concurrency < 1 || p.Concurrency > 1000 {
		errs = append(errs, field.Invalid(path.Child("concurrency"), p.Concurrency, "must be between 1 and 1000"))
	}
	if p.StaleAfter < 2 || p.StaleAfter > 100 {
		errs = append(errs, field.Invalid(path.Child("staleAfter"), p.StaleAfter, "must be between 2 and 100"))
	}
	return errs
}

func between(path *field.Path, d, least, most time.Duration) field.ErrorList {
	if d < least || d > most {
		return field.ErrorList{field.Invalid(path, d.String(), "must be between "+least.String()+" and "+most.String())}
	}
	return nil
}

// inherit takes what the BMC does not say from defaults.
func (b *BMC) inherit(defaults BMCDefaults) {
	if b.Credentials == nil && b.Command == nil {
		b.Credentials = defaults.Credentials
	}
	if b.PowerOffCredentials == nil && b.Command == nil {
		b.PowerOffCredentials = defaults.PowerOffCredentials
	}
	if b.Redfish != nil {
		b.Redfish.CAFile = cmp.Or(b.Redfish.CAFile, defaults.CAFile)
	}
}

func (b *BMC) setDefaults() {
	if b.Redfish != nil {
		b.Redfish.Auth = cmp.Or(b.Redfish.Auth, RedfishSession)
	}
}

func (b *BMC) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	ways := 0
	for _, there := range []bool{b.Redfish != nil, b.IPMI != nil, b.Command != nil} {
		if there {
			ways++
		}
	}
	if ways != 1 {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "must have exactly one of redfish, ipmi and command"))
	}
	if b.Redfish != nil {
		errs = append(errs, b.Redfish.validate(path.Child("redfish"))...)
	}
	if b.IPMI != nil {
		errs = append(errs, b.IPMI.validate(path.Child("ipmi"))...)
	}
	if b.Command != nil {
		errs = append(errs, b.Command.validate(path.Child("command"))...)
	}
	if b.Credentials != nil {
		errs = append(errs, b.Credentials.validate(path.Child("credentials"))...)
	}
	if b.PowerOffCredentials != nil {
		errs = append(errs, b.PowerOffCredentials.validate(path.Child("powerOffCredentials"))...)
	}
	if b.SystemUUID != "" {
		errs = append(errs, validateUUID(path.Child("systemUUID"), b.SystemUUID)...)
	}
	return errs
}

// validateComplete checks what the BMC may have from defaults.
func (b *BMC) validateComplete(path *field.Path) field.ErrorList {
	if b.Credentials == nil && (b.Redfish != nil || b.IPMI != nil) {
		return field.ErrorList{field.Required(path.Child("credentials"), "here or in the defaults")}
	}
	return nil
}

func (c *Credentials) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if (c.Username == "") == (c.UsernameFile == "") {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "must have exactly one of username and usernameFile"))
	}
	if c.PasswordFile == "" {
		errs = append(errs, field.Required(path.Child("passwordFile"), "the file with the password"))
	}
	return errs
}

func (r *Redfish) validate(path *field.Path) field.ErrorList {
	const example = "must be a URL such as https://10.0.0.10"
	var errs field.ErrorList
	parsed, err := url.Parse(r.Endpoint)
	at := path.Child("endpoint")
	switch {
	case r.Endpoint == "":
		errs = append(errs, field.Required(at, example))
	case err != nil, parsed.Scheme != "http" && parsed.Scheme != "https", parsed.Host == "":
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, example))
	case parsed.User != nil:
		errs = append(errs, field.Invalid(at, parsed.Redacted(), "must not contain credentials"))
	case parsed.RawQuery != "" || parsed.Fragment != "":
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, "must not have a query or a fragment"))
	case parsed.Scheme == "http" && !r.InsecureSkipVerify:
		errs = append(errs, field.Invalid(at, r.Endpoint, "must begin with https, or insecureSkipVerify must be set"))
	}
	if r.Auth != RedfishBasic && r.Auth != RedfishSession {
		errs = append(errs, field.NotSupported(path.Child("auth"), r.Auth, []RedfishAuth{RedfishBasic, RedfishSession}))
	}
	return errs
}

// defaultIPMIPort is the port of RMCP (ASF 2.0, 3.2).
const defaultIPMIPort = 623

// HostPort returns the host and the port, 623 if the address has none.
func (i *IPMI) HostPort() (host string, port int) {
	host, text, err := net.SplitHostPort(i.Address)
	if err != nil {
		return strings.Trim(i.Address, "[]"), defaultIPMIPort
	}
	port, err = strconv.Atoi(text)
	if err != nil {
		return host, 0
	}
	return host, port
}

func (i *IPMI) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	host, port := i.HostPort()
	if host == "" {
		errs = append(errs, field.Required(path.Child("address"), "must be a host or host:port"))
	} else if port < 1 || port > 65535 {
		errs = append(errs, field.Invalid(path.Child("address"), i.Address, "must have a port between 1 and 65535"))
	}
	if i.CipherSuite != 0 && i.CipherSuite != 3 && i.CipherSuite != 17 {
		errs = append(errs, field.Invalid(path.Child("cipherSuite"), i.CipherSuite, "must be 3 or 17"))
	}
	return errs
}

func (c *Command) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(c.Argv) == 0 {
		errs = append(errs, field.Required(path.Child("argv"), "the absolute path of a program, and its arguments"))
	} else if !filepath.IsAbs(c.Argv[0]) {
		errs = append(errs, field.Invalid(path.Child("argv").Index(0), c.Argv[0], "must be an absolute path"))
	}
	for _, program := range []struct {
		name string
		argv []string
	}{{"powerOff", c.PowerOff}, {"shutDown", c.ShutDown}, {"powerOn", c.PowerOn}} {
		if len(program.argv) > 0 && !filepath.IsAbs(program.argv[0]) {
			errs = append(errs, field.Invalid(path.Child(program.name).Index(0), program.argv[0], "must be an absolute path"))
		}
	}
	if c.Timeout.Duration != 0 {
		errs = append(errs, between(path.Child("timeout"), c.Timeout.Duration, 100*time.Millisecond, time.Minute)...)
	}
	return errs
}
