package requesttest

import (
	"bytes"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
)

// Forgery is a request that no kubelet makes.
type Forgery struct {
	// Spoil makes it of one that a kubelet makes.
	Spoil func(*Form)
	// Want is a part of what is said of it.
	Want string
}

// Forgeries are requests of the node n-1 for its name n-1.
func Forgeries(t testing.TB) map[string]Forgery {
	tooMany := func(f *Form) {
		for i := range 64 {
			f.Template.DNSNames = append(f.Template.DNSNames, fmt.Sprintf("n-%d.example.com", i))
		}
	}
	return map[string]Forgery{
		"another node's name":    {Subject(func(s *pkix.Name) { s.CommonName = "system:node:n-2" }), `common name is "system:node:n-2", not the requester's, "system:node:n-1"`},
		"no common name":         {Subject(func(s *pkix.Name) { s.CommonName = "" }), "common name"},
		"no organization":        {Subject(func(s *pkix.Name) { s.Organization = nil }), "organizations are none"},
		"masters too":            {Subject(func(s *pkix.Name) { s.Organization = append(s.Organization, "system:masters") }), `"system:masters", not "system:nodes" alone`},
		"an organizational unit": {Subject(func(s *pkix.Name) { s.OrganizationalUnit = []string{"x"} }), "more than an organization and one common name"},
		"a second common name": {Subject(func(s *pkix.Name) {
			s.ExtraNames = []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "admin"}}
		}), "common name"},
		"a user":                       {func(f *Form) { f.Object.Spec.Username = "alice" }, `the requester "alice" is no node`},
		"a node without a name":        {func(f *Form) { f.Object.Spec.Username = "system:node:" }, "has no name of a node"},
		"not in the group":             {func(f *Form) { f.Object.Spec.Groups = []string{"system:authenticated"} }, "not in the group system:nodes"},
		"client auth":                  {Usages("digital signature", "client auth"), `the usage "client auth" is not one`},
		"client auth too":              {Usages("digital signature", "server auth", "client auth"), `the usage "client auth" is not one`},
		"any usage":                    {Usages("digital signature", "server auth", "any"), `the usage "any" is not one`},
		"no server auth":               {Usages("digital signature"), `the usage "server auth" is missing`},
		"no usages":                    {Usages(), `the usage "digital signature" is missing`},
		"a wildcard":                   {func(f *Form) { f.Template.DNSNames = []string{"*.example.com"} }, `"*.example.com" is not the DNS name of a machine`},
		"a name with a dot at its end": {func(f *Form) { f.Template.DNSNames = []string{"n-1."} }, `"n-1." is not the DNS name`},
		"an empty name":                {func(f *Form) { f.Template.DNSNames = []string{""} }, `"" is not the DNS name`},
		"a name with a space":          {func(f *Form) { f.Template.DNSNames = []string{"n-1 example"} }, `is not the DNS name`},
		"the loopback address":         {func(f *Form) { f.Template.IPAddresses[0] = []byte{127, 0, 0, 1} }, "127.0.0.1 is not the address of a machine"},
		"no address in particular":     {func(f *Form) { f.Template.IPAddresses[0] = make([]byte, 16) }, ":: is not the address of a machine"},
		"a multicast address":          {func(f *Form) { f.Template.IPAddresses[0] = []byte{224, 0, 0, 1} }, "224.0.0.1 is not the address of a machine"},
		"no names at all":              {func(f *Form) { f.Template.DNSNames, f.Template.IPAddresses = nil, nil }, "no DNS name and no IP address"},
		"too many names":               {tooMany, "asks for 67 names and addresses, at most 64"},
		"an email address":             {func(f *Form) { f.Template.EmailAddresses = []string{"a@example.com"} }, "such as a URI or an email address"},
		"a URI":                        {URI, "such as a URI or an email address"},
		"a name of a kind that Go does not read": {Extension(t, asn1.ObjectIdentifier{2, 5, 29, 17}, []asn1.RawValue{
			{Class: asn1.ClassContextSpecific, Tag: 8, Bytes: []byte{0x2a, 0x03}}, {Class: asn1.ClassContextSpecific, Tag: 2, Bytes: []byte("n-1")},
		}), "neither a DNS name nor an IP address"},
		"a certificate authority": {Extension(t, asn1.ObjectIdentifier{2, 5, 29, 19}, struct{ CA bool }{true}), "certificate authority"},
		"RSA of 512 bits":         {RSAKey(t, 512), "the RSA key has 512 bits, want 2048 to 8192"},
		"RSA of 1024 bits":        {RSAKey(t, 1024), "the RSA key has 1024 bits, want 2048 to 8192"},
		"a key of another requester": {func(f *Form) {
			block, _ := pem.Decode(New(t, "n-1", []string{"n-1"}, nil).Spec.Request)
			block.Bytes[len(block.Bytes)-1] ^= 1
			f.Encoded = pem.EncodeToMemory(block)
		}, "does not show that it has the key"},
		"not PEM":       {func(f *Form) { f.Encoded = []byte("hello") }, "not one PEM block"},
		"a certificate": {func(f *Form) { f.Encoded = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{1}}) }, "not one PEM block"},
		"two blocks":    {func(f *Form) { f.Encoded = bytes.Repeat(New(t, "n-1", []string{"n-1"}, nil).Spec.Request, 2) }, "not one PEM block"},
		"malformed": {func(f *Form) {
			f.Encoded = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte{1, 2}})
		}, "cannot be read"},
		"a megabyte":                {func(f *Form) { f.Encoded = bytes.Repeat([]byte("x"), 1<<20) }, "has 1048576 bytes, at most 32768 are read"},
		"a long name, which is cut": {Subject(func(s *pkix.Name) { s.CommonName = strings.Repeat("n", 5000) }), "nnn..."},
	}
}
