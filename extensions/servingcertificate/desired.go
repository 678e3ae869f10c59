package servingcertificate

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mooring-ccm/mooring/internal/message"
)

// Who a kubelet is to the API server, see the node authorizer of Kubernetes.
const (
	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
)

const (
	// maxEntries is how many names and addresses a request may ask for. A node has a handful.
	maxEntries = 64
	// maxRequest is how long the encoded request may be, in bytes. With maxEntries names of the longest kind it is about 20 KiB.
	maxRequest = 32 << 10
	// The sizes of RSA keys, in bits, that are certified. Kubelets make ECDSA keys. A longer key costs more to verify than it is worth.
	minRSA, maxRSA = 2048, 8192
	// maxShown is how many bytes of a name of a request are shown.
	maxShown = 100
)

// Tags of names in the extension for alternative names, RFC 5280 section 4.2.1.6.
const (
	tagDNS = 2
	tagIP  = 7
)

var (
	subjectAltName   = asn1.ObjectIdentifier{2, 5, 29, 17}
	basicConstraints = asn1.ObjectIdentifier{2, 5, 29, 19}
)

// request is what a kubelet asks to be certified.
type request struct {
	// node is the requester's, or empty if the requester is no node.
	node  string
	names []string // in lower case
	ips   []netip.Addr
	// problems are why it does not conform to the rules of its signer.
	problems []string
}

// read returns what a CertificateSigningRequest asks for, with all by which it does not conform to the rules of the signer
// kubernetes.io/kubelet-serving: a request with problems is never right.
//
// The rules are those of "Certificates and Certificate Signing Requests" in Kubernetes' documentation. Beyond them, the requester has to be
// the node that is certified, and to have the key.
func read(object *certificatesv1.CertificateSigningRequest) (asked request) {
	add := func(wrong ...string) { asked.problems = append(asked.problems, wrong...) }
	var wrong []string
	asked.node, wrong = requester(object.Spec)
	add(wrong...)
	add(wrongUsages(object.Spec.Usages)...)
	certificate, problem := decode(object.Spec.Request)
	if problem != "" {
		add(problem)
		return asked
	}
	if want := nodeUserPrefix + asked.node; asked.node != "" && certificate.Subject.CommonName != want {
		add(fmt.Sprintf("the subject's common name is %q, not the requester's, %q", shown(certificate.Subject.CommonName), want))
	}
	add(wrongSubject(certificate)...)
	add(wrongKey(certificate)...)
	add(wrongExtensions(certificate)...)
	asked.names, wrong = namesOf(certificate)
	add(wrong...)
	asked.ips, wrong = addressesOf(certificate)
	add(wrong...)
	switch entries := len(certificate.DNSNames) + len(certificate.IPAddresses); {
	case entries == 0:
		add("it asks for no DNS name and no IP address")
	case entries > maxEntries:
		add(fmt.Sprintf("it asks for %d names and addresses, at most %d are looked at", entries, maxEntries))
	}
	return asked
}

// pending reports whether a request is undecided. One that failed was approved, and could not be signed.
func pending(object *certificatesv1.CertificateSigningRequest) bool {
	return !slices.ContainsFunc(object.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed
	})
}

// approvedAt returns when a request was approved, by whomever, and whether it was.
func approvedAt(object *certificatesv1.CertificateSigningRequest) (time.Time, bool) {
	for _, condition := range object.Status.Conditions {
		if condition.Type == certificatesv1.CertificateApproved {
			return condition.LastUpdateTime.Time, true
		}
	}
	return time.Time{}, false
}

// requester returns the node that has made the request. The API server sets user name and groups.
func requester(spec certificatesv1.CertificateSigningRequestSpec) (node string, problems []string) {
	name, isNode := strings.CutPrefix(spec.Username, nodeUserPrefix)
	switch {
	case !isNode:
		return "", []string{fmt.Sprintf("the requester %q is no node", shown(spec.Username))}
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return "", []string{fmt.Sprintf("the requester %q has no name of a node", shown(spec.Username))}
	case !slices.Contains(spec.Groups, nodesGroup):
		problems = append(problems, fmt.Sprintf("the requester is not in the group %s", nodesGroup))
	}
	return name, problems
}

func wrongUsages(usages []certificatesv1.KeyUsage) []string {
	required := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	var problems []string
	for _, usage := range required {
		if !slices.Contains(usages, usage) {
			problems = append(problems, fmt.Sprintf("the usage %q is missing", usage))
		}
	}
	for _, usage := range usages {
		if usage != certificatesv1.UsageKeyEncipherment && !slices.Contains(required, usage) {
			problems = append(problems, fmt.Sprintf("the usage %q is not one of a serving certificate", shown(string(usage))))
		}
	}
	return problems
}

// decode reads the PKCS #10 request of the object.
func decode(encoded []byte) (_ *x509.CertificateRequest, problem string) {
	if len(encoded) > maxRequest {
		return nil, fmt.Sprintf("the request has %d bytes, at most %d are read", len(encoded), maxRequest)
	}
	block, rest := pem.Decode(encoded)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, "the request is not one PEM block CERTIFICATE REQUEST"
	}
	certificate, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, "the request cannot be read: " + shown(err.Error())
	}
	return certificate, ""
}

func wrongSubject(certificate *x509.CertificateRequest) []string {
	subject := certificate.Subject
	var problems []string
	if len(subject.Organization) != 1 || subject.Organization[0] != nodesGroup {
		problems = append(problems, fmt.Sprintf("the subject's organizations are %s, not %q alone", quoted(subject.Organization), nodesGroup))
	}
	if len(subject.Names) > len(subject.Organization)+1 {
		problems = append(problems, "the subject has more than an organization and one common name")
	}
	return problems
}

// wrongKey looks at the key before it is used: the time to verify a signature grows with it.
func wrongKey(certificate *x509.CertificateRequest) []string {
	switch key := certificate.PublicKey.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSA || bits > maxRSA {
			return []string{fmt.Sprintf("the RSA key has %d bits, want %d to %d", bits, minRSA, maxRSA)}
		}
	case *ecdsa.PublicKey:
		if bits := key.Curve.Params().BitSize; bits < 256 {
			return []string{fmt.Sprintf("the ECDSA key has %d bits, want 256 or more", bits)}
		}
	case ed25519.PublicKey:
	default:
		return []string{fmt.Sprintf("a key of the algorithm %s is not certified", certificate.PublicKeyAlgorithm)}
	}
	if err := certificate.CheckSignature(); err != nil {
		return []string{"the requester does not show that it has the key: " + shown(err.Error())}
	}
	return nil
}

// wrongExtensions finds what the signer must not honor. Others, which it drops, do no harm.
func wrongExtensions(certificate *x509.CertificateRequest) []string {
	var problems []string
	alternatives := 0
	for _, extension := range certificate.Extensions {
		switch {
		case extension.Id.Equal(basicConstraints):
			var constraints struct {
				CA  bool `asn1:"optional"`
				Max int  `asn1:"optional,default:-1"`
			}
			if _, err := asn1.Unmarshal(extension.Value, &constraints); err != nil || constraints.CA {
				problems = append(problems, "it asks for the certificate of a certificate authority")
			}
		case extension.Id.Equal(subjectAltName):
			alternatives++
			problems = append(problems, wrongAlternatives(extension.Value)...)
		}
	}
	if alternatives > 1 {
		problems = append(problems, "it has the extension for alternative names more than once")
	}
	return problems
}

// wrongAlternatives finds names of other kinds than DNS names and IP addresses, those too that Go does not read.
func wrongAlternatives(encoded []byte) []string {
	var names []asn1.RawValue
	if rest, err := asn1.Unmarshal(encoded, &names); err != nil || len(rest) > 0 {
		return []string{"the extension for alternative names cannot be read"}
	}
	for _, name := range names {
		if name.Class != asn1.ClassContextSpecific || name.Tag != tagDNS && name.Tag != tagIP {
			return []string{"it asks for a name that is neither a DNS name nor an IP address, such as a URI or an email address"}
		}
	}
	return nil
}

// namesOf returns the DNS names in lower case, sorted, each once.
func namesOf(certificate *x509.CertificateRequest) (names, problems []string) {
	for _, name := range certificate.DNSNames[:min(len(certificate.DNSNames), maxEntries)] {
		lower := strings.ToLower(name)
		if wrong := validation.IsDNS1123Subdomain(lower); len(wrong) > 0 {
			problems = append(problems, fmt.Sprintf("%q is not the DNS name of a machine", shown(name)))
			continue
		}
		names = append(names, lower)
	}
	slices.Sort(names)
	return slices.Compact(names), problems
}

// addressesOf returns the IP addresses, sorted, each once. An IPv4 address may be written as an IPv6 one.
func addressesOf(certificate *x509.CertificateRequest) (ips []netip.Addr, problems []string) {
	for _, bytes := range certificate.IPAddresses[:min(len(certificate.IPAddresses), maxEntries)] {
		ip, ok := netip.AddrFromSlice(bytes)
		if ip = ip.Unmap(); !ok || ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() {
			problems = append(problems, fmt.Sprintf("%s is not the address of a machine", bytes))
			continue
		}
		ips = append(ips, ip)
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return slices.Compact(ips), problems
}

// addressesOfInstance sorts what the cloud reports of an instance into names and addresses. A name may be an address: a cloud may have no
// other, and kubelets ask for it as one.
func addressesOfInstance(reported []corev1.NodeAddress) (names []string, ips []netip.Addr) {
	for _, address := range reported {
		if ip, err := netip.ParseAddr(address.Address); err == nil {
			ips = append(ips, ip.WithZone("").Unmap())
			continue
		}
		switch address.Type {
		case corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS:
			names = append(names, strings.ToLower(strings.TrimSuffix(address.Address, ".")))
		}
	}
	return names, ips
}

func shown(text string) string { return message.Line(text, maxShown) }

func quoted(texts []string) string {
	short := make([]string, 0, len(texts))
	for _, text := range texts[:min(len(texts), 3)] {
		short = append(short, fmt.Sprintf("%q", shown(text)))
	}
	if len(texts) > 3 {
		short = append(short, fmt.Sprintf("and %d more", len(texts)-3))
	}
	return cmp.Or(strings.Join(short, ", "), "none")
}
