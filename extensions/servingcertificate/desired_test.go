package servingcertificate

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/dev/requesttest"
)

func TestReadTakesWhatKubeletsAskFor(t *testing.T) {
	for name, spoil := range map[string][]func(*requesttest.Form){
		"ECDSA":                          nil,
		"RSA, with key encipherment":     {requesttest.RSAKey(t, 2048), requesttest.Usages("key encipherment", "digital signature", "server auth")},
		"Ed25519":                        {requesttest.Ed25519Key},
		"an extension that signers drop": {requesttest.Extension(t, asn1.ObjectIdentifier{1, 2, 3}, "x")},
		"basic constraints of no CA":     {requesttest.Extension(t, basicConstraints, struct{}{})},
		"an address in the form of IPv6": {func(f *requesttest.Form) { f.Template.IPAddresses[0] = f.Template.IPAddresses[0].To16() }},
		"names twice, and in capitals":   {func(f *requesttest.Form) { f.Template.DNSNames = append(f.Template.DNSNames, "N-1.EXAMPLE.com") }},
		"a second address, the same": {func(f *requesttest.Form) {
			f.Template.IPAddresses = append(f.Template.IPAddresses, f.Template.IPAddresses[0])
		}},
	} {
		t.Run(name, func(t *testing.T) {
			asked := read(requesttest.New(t, "n-1", []string{"n-1", "n-1.example.com"}, []string{"10.0.0.1", "2001:db8::1"}, spoil...))
			if len(asked.problems) > 0 {
				t.Fatalf("problems: %q", asked.problems)
			}
			want := request{node: "n-1", names: []string{"n-1", "n-1.example.com"}, ips: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")}}
			if diff := cmp.Diff(want, asked, cmp.AllowUnexported(request{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadRefusesForgedRequests(t *testing.T) {
	for name, forgery := range requesttest.Forgeries(t) {
		t.Run(name, func(t *testing.T) {
			problems := read(requesttest.New(t, "n-1", []string{"n-1", "n-1.example.com"}, []string{"10.0.0.1"}, forgery.Spoil)).problems
			if said := strings.Join(problems, "; "); !strings.Contains(said, forgery.Want) {
				t.Errorf("problems: %q, want %q among them", problems, forgery.Want)
			} else if len(said) > 1000 {
				t.Errorf("%d bytes are said: %s", len(said), said)
			}
		})
	}
}

// All that is wrong is said at once.
func TestReadSaysAllProblems(t *testing.T) {
	problems := read(requesttest.New(t, "n-1", []string{"*"}, []string{"127.0.0.1"}, requesttest.Usages("client auth"), requesttest.URI, requesttest.Subject(func(s *pkix.Name) { *s = pkix.Name{CommonName: "x"} }))).problems
	if len(problems) != 8 {
		t.Errorf("%d problems, want 8: %q", len(problems), problems)
	}
}

func TestAddressesOfInstance(t *testing.T) {
	names, ips := addressesOfInstance([]corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeExternalIP, Address: "::ffff:203.0.113.1"}, {Type: corev1.NodeHostName, Address: "10.0.0.2"},
		{Type: corev1.NodeInternalDNS, Address: "N-1.internal."}, {Type: corev1.NodeExternalDNS, Address: "n-1.example.com"}, {Type: corev1.NodeInternalIP, Address: "n-1"},
		{Type: "Other", Address: "n-2"},
	})
	if want := []string{"n-1.internal", "n-1.example.com"}; !slices.Equal(names, want) {
		t.Errorf("names %q, want %q", names, want)
	}
	want := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("10.0.0.2")}
	if !slices.Equal(ips, want) {
		t.Errorf("addresses %v, want %v", ips, want)
	}
}

// FuzzRead reads requests that anybody may have written. What has no problem is what Go's own parser finds in it, and within the limits.
func FuzzRead(f *testing.F) {
	f.Add(requesttest.New(f, "n-1", []string{"n-1"}, []string{"10.0.0.1"}).Spec.Request, "system:node:n-1", "server auth")
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----"), "system:node:", "any")
	f.Add([]byte{}, "", "")
	f.Fuzz(func(t *testing.T, encoded []byte, user, usage string) {
		object := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: encoded, Username: user, Groups: []string{"system:nodes"},
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.KeyUsage(usage)},
		}}
		asked := read(object)
		for _, problem := range asked.problems {
			if len(problem) > 1000 {
				t.Errorf("a problem of %d bytes", len(problem))
			}
		}
		if len(asked.problems) > 0 {
			return
		}
		block, _ := pem.Decode(encoded)
		certificate, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil || certificate.CheckSignature() != nil || certificate.Subject.CommonName != user || "system:node:"+asked.node != user {
			t.Fatalf("%+v is taken from %+v of %q: %v", asked, certificate, user, err)
		}
		if entries := len(asked.names) + len(asked.ips); entries == 0 || entries > maxEntries {
			t.Errorf("%d names and addresses", entries)
		}
	})
}
