package annotations_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
)

func serviceWith(values map[string]string) *v1.Service {
	service := &v1.Service{}
	service.Annotations = values
	return service
}

// TestDefaults looks at what holds without annotations: the documented defaults, and the options over them.
func TestDefaults(t *testing.T) {
	want := annotations.Settings{
		ConnectionLimit: -1, Method: "ROUND_ROBIN", NodeSelector: map[string]string{},
		Timeouts: annotations.Timeouts{ClientData: 50000, MemberConnect: 5000, MemberData: 50000},
		Monitor:  annotations.Monitor{Delay: 5, Timeout: 3, MaxRetries: 1, MaxRetriesDown: 3},
	}
	got, err := annotations.Parse(&v1.Service{}, annotations.Options{})
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v, difference (-want +got):\n%s", err, diff)
	}
	got, err = annotations.Parse(&v1.Service{}, annotations.Options{
		Provider: "ovn", Internal: true, SubnetID: "s", CreateMonitor: true, MonitorDelay: 10 * time.Second,
		NodeSelector: "env, region=default", Floating: annotations.FloatingSubnet{Name: "public-*"},
	})
	want.Method, want.Internal, want.SubnetID, want.Monitor.Enabled, want.Monitor.Delay = "SOURCE_IP_PORT", true, "s", true, 10
	want.NodeSelector, want.Floating.Name = map[string]string{"env": "", "region": "default"}, "public-*"
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v, difference (-want +got):\n%s", err, diff)
	}
}

func TestValues(t *testing.T) {
	const p = annotations.Prefix
	for name, test := range map[string]struct {
		given map[string]string
		want  func(*annotations.Settings)
	}{
		"internal":          {map[string]string{annotations.Internal: "true"}, func(s *annotations.Settings) { s.Internal = true }},
		"proxy protocol":    {map[string]string{p + "proxy-protocol": "true"}, func(s *annotations.Settings) { s.ProxyProtocol = "PROXY" }},
		"proxy protocol v2": {map[string]string{p + "proxy-protocol": "v2"}, func(s *annotations.Settings) { s.ProxyProtocol = "PROXYV2" }},
		"no proxy protocol": {map[string]string{p + "proxy-protocol": "false"}, func(*annotations.Settings) {}},
		"connection limit":  {map[string]string{p + "connection-limit": "100"}, func(s *annotations.Settings) { s.ConnectionLimit = 100 }},
		"empty network":     {map[string]string{p + "floating-network-id": ""}, func(s *annotations.Settings) { s.FloatingNetworkID = "" }},
		"empty method":      {map[string]string{p + "lb-method": ""}, func(*annotations.Settings) {}},
		"network":           {map[string]string{p + "floating-network-id": "n"}, func(s *annotations.Settings) { s.FloatingNetworkID = "n" }},
		"timeout":           {map[string]string{p + "timeout-tcp-inspect": "7"}, func(s *annotations.Settings) { s.Timeouts.TCPInspect = 7 }},
		"keep":              {map[string]string{p + "keep-floatingip": "true"}, func(s *annotations.Settings) { s.KeepFloatingIP = true }},
		"subnet ID goes before": {map[string]string{p + "floating-subnet-id": "i", p + "floating-subnet-tags": "t"},
			func(s *annotations.Settings) { s.Floating = annotations.FloatingSubnet{ID: "i"} }},
		"class goes before": {map[string]string{p + "class": "dmz", p + "subnet-id": "annotated", p + "network-id": "annotated", p + "floating-subnet": "x"},
			func(s *annotations.Settings) {
				s.Class, s.SubnetID, s.NetworkID = "dmz", "of-class", "annotated"
				s.Floating = annotations.FloatingSubnet{Tags: "dmz"}
			}},
		"node selector": {map[string]string{p + "node-selector": " env = production ,role"},
			func(s *annotations.Settings) { s.NodeSelector = map[string]string{"env": "production", "role": ""} }},
		"container": {map[string]string{p + "default-tls-container-ref": "https://keys.example/key-manager/v1/containers/1"},
			func(s *annotations.Settings) { s.TLSContainerRef = "https://keys.example/key-manager/v1/containers/1" }},
		"written by upstream": {map[string]string{p + "load-balancer-address": "192.0.2.1"}, func(*annotations.Settings) {}},
	} {
		t.Run(name, func(t *testing.T) {
			options := annotations.Options{FloatingNetworkID: "configured", Classes: map[string]annotations.Class{
				"dmz": {SubnetID: "of-class", Floating: annotations.FloatingSubnet{Tags: "dmz"}}}}
			want, err := annotations.Parse(&v1.Service{}, options)
			if err != nil {
				t.Fatal(err)
			}
			test.want(&want)
			got, err := annotations.Parse(serviceWith(test.given), options)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("error %v, difference (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestErrorsComeTogether looks that one error holds all wrong values, with the names of their annotations.
func TestErrorsComeTogether(t *testing.T) {
	wrong := map[string]string{annotations.Internal: "yes"}
	for name, value := range map[string]string{
		"class": "unknown", "connection-limit": "0", "proxy-protocol": "v3", "x-forwarded-for": "1", "lb-method": "RANDOM",
		"timeout-client-data": "-1", "timeout-member-data": "5s", "enable-health-monitor": "on", "health-monitor-delay": "0",
		"health-monitor-max-retries": "11", "default-tls-container-ref": "my-secret", "node-selector": "=x", "floating-subnet": "~(",
	} {
		wrong[annotations.Prefix+name] = value
	}
	_, err := annotations.Parse(serviceWith(wrong), annotations.Options{})
	for name, value := range wrong {
		if err == nil || !strings.Contains(err.Error(), "annotation "+name+": \""+value+"\": ") {
			t.Errorf("%s: %q is not in the error: %v", name, value, err)
		}
	}
}

func TestContradictions(t *testing.T) {
	const p = annotations.Prefix
	for name, test := range map[string]struct {
		given   map[string]string
		options annotations.Options
		want    string
	}{
		"two ways to the client's address": {map[string]string{p + "proxy-protocol": "v1", p + "x-forwarded-for": "true"}, annotations.Options{},
			"cannot be together with"},
		"timeout beyond delay": {map[string]string{p + "enable-health-monitor": "true", p + "health-monitor-timeout": "9"}, annotations.Options{},
			"longer than the delay of 5 s"},
		"method of ovn":        {map[string]string{p + "lb-method": "ROUND_ROBIN"}, annotations.Options{Provider: "ovn"}, "SOURCE_IP_PORT only"},
		"selector in the file": {nil, annotations.Options{NodeSelector: "a b"}, "option node-selector of the cloud config"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := annotations.Parse(serviceWith(test.given), test.options); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one that says %q", err, test.want)
			}
		})
	}
}

func TestFloatingSubnets(t *testing.T) {
	for _, test := range []struct {
		subnet annotations.FloatingSubnet
		name   string
		tags   []string
		want   bool
	}{
		{annotations.FloatingSubnet{}, "any", nil, true},
		{annotations.FloatingSubnet{Name: "public-*"}, "public-1", nil, true},
		{annotations.FloatingSubnet{Name: "public-*"}, "my-public-1", nil, false},
		{annotations.FloatingSubnet{Name: "!public-*"}, "private", nil, true},
		{annotations.FloatingSubnet{Name: "~public-[0-9]"}, "public-1", nil, true},
		{annotations.FloatingSubnet{Name: "~public-[0-9]"}, "public-12", nil, false},
		{annotations.FloatingSubnet{Name: "!~public-[0-9]"}, "public-1", nil, false},
		{annotations.FloatingSubnet{Tags: "a, b"}, "x", []string{"b"}, true},
		{annotations.FloatingSubnet{Tags: "&a,b"}, "x", []string{"b"}, false},
		{annotations.FloatingSubnet{Tags: "&a,b"}, "x", []string{"a", "b"}, true},
		{annotations.FloatingSubnet{Tags: "!a,b"}, "x", []string{"c"}, true},
		{annotations.FloatingSubnet{Tags: "!&a,b"}, "x", []string{"a"}, true},
		{annotations.FloatingSubnet{Name: "x", Tags: "a"}, "x", nil, false},
	} {
		if got, err := test.subnet.Matches(test.name, test.tags); err != nil || got != test.want {
			t.Errorf("%+v matches %s with tags %v: %v, error %v; want %v", test.subnet, test.name, test.tags, got, err, test.want)
		}
	}
}

// TestTableIsComplete looks that each row says all that the page shows, and that no annotation is there twice.
func TestTableIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range annotations.Table() {
		if row.Values == "" || row.OVN == "" || !strings.HasSuffix(row.Text, ".") || seen[row.Name] {
			t.Errorf("row %s is twice in the table or not complete: %+v", row.Name, row)
		}
		seen[row.Name] = true
	}
	if len(seen) != 31 {
		t.Errorf("%d annotations, and the reference of cloud-provider-openstack has 31", len(seen))
	}
}

// TestReferenceIsUpToDate looks that the page shows the table as it is.
func TestReferenceIsUpToDate(t *testing.T) {
	const file = "../../../../docs/reference/openstack-annotations.md"
	command := exec.CommandContext(t.Context(), "go", "run", "../../../../dev/docgen/openstackannotations", "--check", "--file", file)
	command.Env = append(os.Environ(), "CGO_ENABLED=0") // as programs are shipped, so the build cache has it
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

// FuzzParse looks that whatever an annotation says is settings or an error that names the annotation and can be shown.
func FuzzParse(f *testing.F) {
	for _, value := range []string{"true", "v2", "-1", "100", "env=production, region", "~public-[0-9]+", "!&a,b", "[", "ROUND_ROBIN", "\x00"} {
		f.Add(uint8(0), value)
	}
	f.Fuzz(func(t *testing.T, row uint8, value string) {
		table := annotations.Table()
		annotation := table[int(row)%len(table)]
		settings, err := annotations.Parse(serviceWith(map[string]string{annotation.Name: value}), annotations.Options{})
		if err != nil {
			if text := err.Error(); !strings.Contains(text, "openstack") || !utf8.ValidString(text) || len(text) > 4000 {
				t.Errorf("%s=%q: the error cannot be shown: %q", annotation.Name, value, text)
			}
			return
		}
		if _, err := settings.Floating.Matches("name", []string{"tag"}); err != nil {
			t.Errorf("%s=%q was accepted and cannot be used: %v", annotation.Name, value, err)
		}
		if settings.ConnectionLimit == 0 || settings.Monitor.Delay < 1 || settings.Timeouts.ClientData < 0 {
			t.Errorf("%s=%q: settings out of bounds: %+v", annotation.Name, value, settings)
		}
	})
}
