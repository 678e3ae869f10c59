package annotations

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxTimeout is the longest timeout of a listener, in milliseconds: octavia's own bound.
const maxTimeout = 365 * 24 * 60 * 60 * 1000

// maxMonitorSeconds bounds the times of monitors, which octavia keeps in a signed 32-bit number.
const maxMonitorSeconds = 1<<31 - 1

// Settings are what a Service asks of its load balancer: annotations over class over options over defaults.
type Settings struct {
	Internal bool
	// Class is the name of the class, empty if the Service names none.
	Class                                       string
	SubnetID, NetworkID, PortID, MemberSubnetID string
	FlavorID, AvailabilityZone                  string
	// LoadBalancerID is the load balancer that the Service shares or has.
	LoadBalancerID    string
	FloatingNetworkID string
	Floating          FloatingSubnet
	KeepFloatingIP    bool
	// ConnectionLimit is -1 for any number.
	ConnectionLimit int
	// ProxyProtocol is the pool protocol, PROXY or PROXYV2, or empty without it.
	ProxyProtocol   string
	XForwardedFor   bool
	TLSContainerRef string
	Method          string
	// NodeSelector are labels that members have; an empty value is any.
	NodeSelector map[string]string
	Timeouts     Timeouts
	Monitor      Monitor
	Hostname     string
}

// Timeouts are those of a listener, in milliseconds.
type Timeouts struct{ ClientData, MemberConnect, MemberData, TCPInspect int }

// Monitor is how members are probed; Delay and Timeout are in seconds.
type Monitor struct {
	Enabled                                    bool
	Delay, Timeout, MaxRetries, MaxRetriesDown int
}

// Parse returns the settings of a Service. Its error holds every annotation whose value is wrong, each an *Error.
func Parse(service *v1.Service, options Options) (Settings, error) {
	options = options.Defaulted()
	settings, problems := defaults(options)
	for _, annotation := range Table() {
		value, given := service.Annotations[annotation.Name]
		if !given {
			continue
		}
		if err := annotation.read(&settings, value, options); err != nil {
			problems = append(problems, &Error{Annotation: annotation.Name, Value: value, Err: err})
		}
	}
	settings.Internal = settings.Internal || options.Internal
	problems = append(problems, settings.enter(service, options)...)
	problems = append(problems, settings.contradictions(service)...)
	return settings, errors.Join(problems...)
}

// Error says which annotation has a value that cannot be.
type Error struct {
	Annotation, Value string
	Err               error
}

// Error names annotation and value.
func (e *Error) Error() string {
	return fmt.Sprintf("annotation %s: %q: %v", e.Annotation, shortened(e.Value), e.Err)
}

// Unwrap returns what is wrong with the value.
func (e *Error) Unwrap() error { return e.Err }

// shortened keeps an error readable whose value is long.
func shortened(value string) string {
	const longest = 100
	if len(value) <= longest {
		return value
	}
	return value[:longest] + "..."
}

func defaults(options Options) (Settings, []error) {
	settings := Settings{
		SubnetID: options.SubnetID, NetworkID: options.NetworkID, MemberSubnetID: options.MemberSubnetID,
		FlavorID: options.FlavorID, AvailabilityZone: options.AvailabilityZone,
		FloatingNetworkID: options.FloatingNetworkID,
		ConnectionLimit:   -1, TLSContainerRef: options.TLSContainerRef, Method: options.Method,
		Timeouts: Timeouts{ClientData: 50000, MemberConnect: 5000, MemberData: 50000},
		Monitor: Monitor{Enabled: options.CreateMonitor,
			Delay: int(options.MonitorDelay / time.Second), Timeout: int(options.MonitorTimeout / time.Second),
			MaxRetries: options.MonitorMaxRetries, MaxRetriesDown: options.MonitorMaxRetriesDown},
	}
	var problems []error
	selector, err := parseSelector(options.NodeSelector)
	if err != nil {
		problems = append(problems, fmt.Errorf("option node-selector of the cloud config: %w", err))
	}
	settings.NodeSelector = selector
	return settings, problems
}

// enter puts in what the class says, which goes before annotations, and the options where neither says which floating subnet.
func (s *Settings) enter(service *v1.Service, options Options) []error {
	var problems []error
	if s.Class != "" {
		class, known := options.Classes[s.Class]
		if !known {
			problems = append(problems, &Error{Annotation: ClassName, Value: service.Annotations[ClassName],
				Err: errors.New("the cloud config has no section LoadBalancerClass of this name")})
		}
		for value, of := range map[*string]string{
			&s.SubnetID: class.SubnetID, &s.NetworkID: class.NetworkID, &s.MemberSubnetID: class.MemberSubnetID,
			&s.FloatingNetworkID: class.FloatingNetworkID,
		} {
			if of != "" {
				*value = of
			}
		}
		if class.Floating != (FloatingSubnet{}) {
			s.Floating = class.Floating
		}
	}
	if s.Floating == (FloatingSubnet{}) {
		s.Floating = options.Floating
	}
	if s.Floating.ID != "" {
		s.Floating = FloatingSubnet{ID: s.Floating.ID}
	}
	return problems
}

// contradictions are settings that cannot be together.
func (s *Settings) contradictions(service *v1.Service) []error {
	var problems []error
	if s.ProxyProtocol != "" && s.XForwardedFor {
		problems = append(problems, &Error{Annotation: ProxyProtocol, Value: service.Annotations[ProxyProtocol],
			Err: fmt.Errorf("cannot be together with %s", XForwardedFor)})
	}
	if s.Monitor.Enabled && s.Monitor.Timeout > s.Monitor.Delay {
		problems = append(problems, &Error{Annotation: MonitorTimeout, Value: strconv.Itoa(s.Monitor.Timeout),
			Err: fmt.Errorf("is longer than the delay of %d s between probes, see %s", s.Monitor.Delay, MonitorDelay)})
	}
	return problems
}

// reader puts a value into the settings, or says what is wrong with it.
type reader func(settings *Settings, value string, options Options) error

func text(field func(*Settings) *string) reader {
	return func(s *Settings, value string, _ Options) error {
		*field(s) = strings.TrimSpace(value)
		return nil
	}
}

func unread(*Settings, string, Options) error { return nil }

func flag(field func(*Settings) *bool) reader {
	return func(s *Settings, value string, _ Options) error {
		if value != "true" && value != "false" {
			return errors.New(`must be "true" or "false"`)
		}
		*field(s) = value == "true"
		return nil
	}
}

func number(least, most int, field func(*Settings) *int) reader {
	return func(s *Settings, value string, _ Options) error {
		parsed, err := strconv.Atoi(value)
		if err != nil || parsed < least || parsed > most {
			return fmt.Errorf("must be a number from %d to %d", least, most)
		}
		*field(s) = parsed
		return nil
	}
}

func connectionLimit(s *Settings, value string, _ Options) error {
	parsed, err := strconv.ParseInt(value, 10, 32)
	if err != nil || parsed < -1 || parsed == 0 {
		return errors.New("must be -1, for any number, or a number above 0")
	}
	s.ConnectionLimit = int(parsed)
	return nil
}

func proxyProtocol(s *Settings, value string, _ Options) error {
	protocols := map[string]string{"true": "PROXY", "v1": "PROXY", "v2": "PROXYV2", "false": "", "": ""}
	protocol, known := protocols[value]
	if !known {
		return errors.New(`must be "v1", "v2", "true" (which is v1) or "false"`)
	}
	s.ProxyProtocol = protocol
	return nil
}

func method(s *Settings, value string, options Options) error {
	methods := []string{"ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP", "SOURCE_IP_PORT"}
	switch {
	case value == "":
		return nil // as with cloud-provider-openstack: the option holds
	case !slices.Contains(methods, value):
		return fmt.Errorf("must be one of %s", strings.Join(methods, ", "))
	case options.Driver() == DriverOVN && value != "SOURCE_IP_PORT":
		return errors.New("the driver ovn has SOURCE_IP_PORT only")
	}
	s.Method = value
	return nil
}

// barbicanRef is the form of a reference to a container or a secret of barbican.
var barbicanRef = regexp.MustCompile(`^https?://[^/]+/(.+/)?v1/(containers|secrets)/[^/]+$`)

func containerRef(s *Settings, value string, options Options) error {
	if value != "" && options.ContainerStore != "external" && !barbicanRef.MatchString(value) {
		return errors.New("must be https://HOST/v1/containers/ID or https://HOST/v1/secrets/ID; " +
			"container-store=external in the cloud config allows any reference")
	}
	s.TLSContainerRef = value
	return nil
}

func nodeSelector(s *Settings, value string, _ Options) error {
	selector, err := parseSelector(value)
	if err == nil {
		s.NodeSelector = selector
	}
	return err
}

// parseSelector reads key=value pairs with commas between; a key alone is any value.
func parseSelector(value string) (map[string]string, error) {
	var problems []error
	selector := map[string]string{}
	for pair := range strings.SplitSeq(value, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, wanted, _ := strings.Cut(pair, "=")
		key, wanted = strings.TrimSpace(key), strings.TrimSpace(wanted)
		if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
			problems = append(problems, fmt.Errorf("%q is no name of a label: %s", shortened(key), wrong[0]))
		}
		if wrong := validation.IsValidLabelValue(wanted); len(wrong) > 0 {
			problems = append(problems, fmt.Errorf("%q is no value of a label: %s", shortened(wanted), wrong[0]))
		}
		selector[key] = wanted
	}
	return selector, errors.Join(problems...)
}

func namePattern(s *Settings, value string, _ Options) error {
	if _, err := (FloatingSubnet{Name: value}).matchName(""); err != nil {
		return err
	}
	s.Floating.Name = value
	return nil
}

// Matches reports whether a subnet of this name and with these tags is meant. The ID is not looked at.
func (f FloatingSubnet) Matches(name string, tags []string) (bool, error) {
	named, err := f.matchName(name)
	return named && f.matchTags(tags), err
}

func (f FloatingSubnet) matchName(name string) (bool, error) {
	if f.Name == "" {
		return true, nil
	}
	pattern, negated := strings.CutPrefix(f.Name, "!")
	var matched bool
	if expression, isRegexp := strings.CutPrefix(pattern, "~"); isRegexp {
		compiled, err := regexp.Compile("^(?:" + expression + ")$")
		if err != nil {
			return false, fmt.Errorf("not a regular expression: %w", err)
		}
		matched = compiled.MatchString(name)
	} else {
		var err error
		if matched, err = path.Match(pattern, name); err != nil {
			return false, fmt.Errorf("not a glob: %w", err)
		}
	}
	return matched != negated, nil
}

func (f FloatingSubnet) matchTags(tags []string) bool {
	if f.Tags == "" {
		return true
	}
	list, negated := strings.CutPrefix(f.Tags, "!")
	list, all := strings.CutPrefix(list, "&")
	has := func(tag string) bool { return slices.Contains(tags, strings.TrimSpace(tag)) }
	wanted := strings.Split(list, ",")
	if all {
		return !slices.ContainsFunc(wanted, func(tag string) bool { return !has(tag) }) != negated
	}
	return slices.ContainsFunc(wanted, has) != negated
}
