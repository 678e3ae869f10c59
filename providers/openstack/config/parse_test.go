package config

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// minimal is the shortest config that is accepted.
const minimal = `
[Global]
auth-url = https://keystone.example:5000/v3
region = RegionOne
application-credential-id = 1234
application-credential-secret = "s3cr3t#1"
`

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	config, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// want returns the minimal config with changes.
func want(change func(*Config)) *Config {
	config := Defaults()
	config.LoadBalancer.LBMethod = "ROUND_ROBIN"
	config.Global = Global{
		AuthURL: "https://keystone.example:5000/v3", Region: "RegionOne", ApplicationCredentialID: "1234", ApplicationCredentialSecret: "s3cr3t#1",
	}
	change(&config)
	return &config
}

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want func(*Config)
	}{
		"minimal": {minimal, func(*Config) {}},
		"names in any case, booleans in every way, a mark of the byte order, ends of lines of Windows": {
			"\ufeff" + strings.ReplaceAll(strings.ReplaceAll(minimal, "[Global]", "[GLOBAL]"), "\n", "\r\n") +
				"[loadbalancer]\nCreate-Monitor\nmanage-security-groups = yes\ninternal-lb=On\ncascade-delete=0\n",
			func(c *Config) {
				c.LoadBalancer.CreateMonitor, c.LoadBalancer.ManageSecurityGroups, c.LoadBalancer.InternalLB = true, true, true
				c.LoadBalancer.CascadeDelete = false
			},
		},
		"networks": {
			minimal + "[Networking]\npublic-network-name=a\npublic-network-name=b\ninternal-network-name=c # d\nipv6-support-disabled=true\n" +
				`address-sort-order = "10.0.0.0/8, 2001:db8::1/64,"`,
			func(c *Config) {
				c.Networking = Networking{
					IPv6SupportDisabled: true, PublicNetworkName: []string{"a", "b"}, InternalNetworkName: []string{"c"},
					AddressSortOrder: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/64")},
				}
			},
		},
		"load balancers": {
			minimal + "[LoadBalancer]\nlb-provider=ovn\nmonitor-delay=1m\nmonitor-timeout = 30\nmonitor-max-retries=2\nuse-octavia=true\n" +
				"[LoadBalancerClass \"gold\"]\nsubnet-id=1\nfloating-subnet=~^pub\n[LoadBalancerClass \"tin\"]\n",
			func(c *Config) {
				c.LoadBalancer.LBProvider, c.LoadBalancer.LBMethod = "ovn", "SOURCE_IP_PORT"
				c.LoadBalancer.MonitorDelay, c.LoadBalancer.MonitorTimeout, c.LoadBalancer.MonitorMaxRetries = time.Minute, 30*time.Second, 2
				c.LoadBalancerClass = map[string]LoadBalancerClass{"gold": {SubnetID: "1", FloatingSubnet: "~^pub"}, "tin": {}}
				c.Warnings = []string{"[LoadBalancer].use-octavia is ignored: Octavia is always used"}
			},
		},
		"sections that mean nothing": {
			minimal + "[BlockStorage]\nbs-version=v3\n[Metadata]\nsearch-order = metadataService, configDrive\nrequest-timeout=9s\n[Route]\nrouter-id=r\n",
			func(c *Config) {
				c.Metadata = Metadata{SearchOrder: "metadataService, configDrive", RequestTimeout: 9 * time.Second}
				c.Route.RouterID = "r"
				c.Warnings = []string{"[BlockStorage] is ignored: the cloud controller manager has nothing to do with volumes"}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := mustParse(t, test.text)
			compare := []cmp.Option{cmpopts.IgnoreFields(Config{}, "TLS"), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })}
			if diff := cmp.Diff(want(test.want), got, compare...); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestParseNamesAllMistakes(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"empty": {"", []string{"[Global].auth-url: Required", "[Global].region: Required", "[Global].application-credential-id: Required"}},
		"several": {
			"[Global]\nauth-url=ftp://x\nregion=R\nusername=u\nos-endpoint-type=inner\ncert-file=c\ntls-insecure=maybe\n" +
				"[Networking]\naddress-sort-order=10.0.0.0/8,ten\npubic-network-name=x\n[Loadbalancer]\nmonitor-delay=soon\nmonitor-max-retries=11\nmax-shared-lb=two\n" +
				"lb-method=LUCK\nlb-version=v1\nfloating-subnet=~(\nmonitor-timeout\n[LoadBalancerClass]\nx=y\n[Volumes]\n[Metadata]\nsearch-order=moon\nrequest-timeout=1h\n[Route \"x\"]\n",
			[]string{
				"[Global].auth-url: Invalid value: must be a URL", "[Global].password: Required", "[Global].user-domain-name: Required",
				"[Global].tenant-id: Required", "[Global].os-endpoint-type: Unsupported value: \"inner\"", "[Global].key-file: Required",
				"[Global].tls-insecure: Invalid value: \"maybe\": must be true or false", "[Networking].address-sort-order: Invalid value", "\"ten\"",
				"[Networking].pubic-network-name: Invalid value: unknown option; known here are ipv6-support-disabled, public-network-name",
				"[LoadBalancer].monitor-delay: Invalid value: \"soon\"", "[LoadBalancer].monitor-max-retries: Invalid value: 11",
				"[LoadBalancer].max-shared-lb: Invalid value: \"two\"", "[LoadBalancer].lb-method: Unsupported value: \"LUCK\"",
				"[LoadBalancer].lb-version: Unsupported value: \"v1\"", "[LoadBalancer].floating-subnet: Invalid value: \"~(\"",
				"[LoadBalancer].monitor-timeout: Invalid value: needs a value", "[LoadBalancerClass]: Required", "[Volumes]: Invalid value: unknown section",
				"[Metadata].search-order: Unsupported value", "[Metadata].request-timeout: Invalid value: \"1h0m0s\"", "[Route \"x\"]: Invalid value",
			},
		},
		"format":               {minimal + "[Networking\n", []string{"(line:column): Invalid value: 7:12: expected right bracket"}},
		"ovn":                  {minimal + "[LoadBalancer]\nlb-provider=ovn\nlb-method=ROUND_ROBIN\n", []string{"the provider ovn knows SOURCE_IP_PORT only"}},
		"no file":              {minimal + "ca-file=/nowhere/ca.pem\n", []string{"[Global].ca-file: Invalid value: \"/nowhere/ca.pem\""}},
		"half of a credential": {"[Global]\nauth-url=http://k\nregion=R\napplication-credential-name=n\n", []string{"application-credential-secret: Required", "[Global].username: Required"}},
		"two routers":          {minimal + "[Route]\nrouter-id=a\nRouter-ID=b\n", []string{"[Route].router-id: Invalid value: is given twice"}},
		"half of a trust":      {"[Global]\nauth-url=http://k\nregion=R\ntrust-id=t\n", []string{"trustee-id: Required", "trustee-password: Required"}},
		"a network twice":      {minimal + "[Networking]\npublic-network-name=a\ninternal-network-name=a\n", []string{"is a public-network-name too"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(test.text))
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not say %q", err, want)
				}
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	const head = "[Global]\nauth-url=http://k/v3\nregion=R\n"
	for _, credentials := range []string{
		"username=u\npassword=p\ntenant-name=t\ndomain-name=d\n",
		"user-id=u\npassword=p\ntenant-id=t\n",
		"username=u\nuser-domain-id=d\npassword=p\ntenant-name=t\ntenant-domain-name=e\n",
		"application-credential-name=n\napplication-credential-secret=s\nuser-id=u\n",
		"trust-id=t\ntrustee-id=u\ntrustee-password=p\n",
		"trust-id=t\nusername=u\nuser-domain-name=d\npassword=p\n",
		"token=t\n",
	} {
		if _, err := Parse([]byte(head + credentials)); err != nil {
			t.Errorf("%s%v", credentials, err)
		}
	}
}

// A secret is in no error, whatever is wrong around it, and in no format of the config.
func TestSecretsAreNotShown(t *testing.T) {
	const secret = "hunter2-hunter2"
	for _, text := range []string{
		"[Global]\npassword=" + secret + "\npasword=" + secret + "\ntoken=" + secret,
		"[Globe]\npassword=" + secret,
		"[Global]\nauth-url=http://u:" + secret + "@k\n",
		"[Global]\npassword=" + secret + "\n[LoadBalancer \"x\"]\npassword=" + secret,
	} {
		if _, err := Parse([]byte(text)); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", text, err)
		}
	}
	config := mustParse(t, minimal)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if shown := fmt.Sprintf(verb, config.Global); strings.Contains(shown, "s3cr3t") {
			t.Errorf("%s shows the secret: %s", verb, shown)
		}
	}
	if got := config.Global.ApplicationCredentialSecret.Reveal(); got != "s3cr3t#1" {
		t.Errorf("the secret is %q", got)
	}
}

func TestWarnings(t *testing.T) {
	config := mustParse(t, minimal+"tls-insecure=true\n[LoadBalancer]\nlb-provider=brand\ncontainer-store=cellar\n")
	for i, want := range []string{"lb-provider", "container-store", "tls-insecure"} {
		if len(config.Warnings) != 3 || !strings.Contains(config.Warnings[i], want) {
			t.Errorf("%q, want one about %s", config.Warnings, want)
		}
	}
	if !config.TLS.InsecureSkipVerify {
		t.Error("tls-insecure means nothing")
	}
}
