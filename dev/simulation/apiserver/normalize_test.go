package apiserver

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// normalize replaces what two servers may choose freely: versions, UIDs, times, addresses, ports and generated names.
func (s *side) normalize(key string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		return s.normalizeObject(value)
	case []any:
		all := []any{}
		for _, element := range value {
			all = append(all, s.normalize(key, element))
		}
		if key == "managedFields" {
			sort.SliceStable(all, func(i, j int) bool { return managerOf(all[i]) < managerOf(all[j]) })
		}
		return all
	case string:
		return s.normalizeText(key, value)
	case float64:
		if (key == "nodePort" || key == "healthCheckNodePort") && value >= firstNodePort+chosenPorts {
			return s.token("port", strconv.Itoa(int(value)))
		}
	}
	return value
}

func managerOf(entry any) string {
	fields, _ := entry.(map[string]any)
	return fmt.Sprint(fields["manager"], fields["operation"], fields["subresource"])
}

func (s *side) normalizeText(key, value string) any {
	switch {
	case isTime(value):
		return "time"
	case value == "":
		return value
	case key == "uid" || key == "resourceVersion":
		return s.token(key, value)
	case key == "clusterIP" || key == "clusterIPs":
		if strings.HasPrefix(value, "10.96.") && !strings.HasPrefix(value, "10.96.0.") || strings.HasPrefix(value, "fd") {
			return s.token("address", value)
		}
	case key == "continue":
		return "continue"
	}
	return value
}

func (s *side) normalizeObject(object map[string]any) any {
	kind, _ := object["kind"].(string)
	if kind == "Status" && object["status"] == "Failure" {
		return normalizeStatus(object)
	}
	result := map[string]any{}
	for _, key := range keysOf(object) {
		if key == "metadata" && strings.HasSuffix(kind, "List") {
			about := maps.Clone(object[key].(map[string]any))
			delete(about, "resourceVersion") // it counts writes of others too
			result[key] = s.normalize(key, about)
			continue
		}
		result[key] = s.normalize(key, object[key])
	}
	if prefix, ok := object["generateName"].(string); ok && object["name"] != nil {
		name := object["name"].(string)
		if rest, found := strings.CutPrefix(name, prefix); found && len(rest) == suffixLength {
			result["name"] = s.token("name", name)
		}
	}
	if about, ok := result["metadata"].(map[string]any); ok && kind == "SelfSubjectAccessReview" {
		delete(about, "managedFields")
	}
	if object["type"] == "ExternalName" {
		delete(result, "internalTrafficPolicy") // see the differences in doc.go
	}
	if kind == "CertificateSigningRequest" {
		if spec, ok := result["spec"].(map[string]any); ok {
			for _, key := range []string{"username", "groups", "extra", "uid"} {
				delete(spec, key)
			}
		}
	}
	return result
}

// normalizeStatus keeps what clients decide on, and leaves out what people read.
func normalizeStatus(status map[string]any) any {
	result := map[string]any{"reason": status["reason"], "code": status["code"]}
	details, ok := status["details"].(map[string]any)
	if !ok {
		return result
	}
	if name, ok := details["name"].(string); ok && strings.HasPrefix(name, "made-") {
		details["name"] = "made"
	}
	result["name"], result["kind"], result["group"], result["retry"] = details["name"], details["kind"], details["group"], details["retryAfterSeconds"]
	if causes, ok := details["causes"].([]any); ok {
		var all []string
		for _, cause := range causes {
			cause := cause.(map[string]any)
			all = append(all, fmt.Sprint(cause["reason"], " ", cause["field"]))
		}
		sort.Strings(all)
		result["causes"] = slices.Compact(all) // the API server says some twice
	}
	return result
}

func keysOf(object map[string]any) []string {
	var keys []string
	for key := range object {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// cloned is a deep copy of a decoded object.
func cloned(object map[string]any) map[string]any {
	encoded, err := json.Marshal(object)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	var result map[string]any
	if err := json.Unmarshal(encoded, &result); err != nil {
		panic(err)
	}
	return result
}

// newCertificateRequest makes a request in PEM.
func newCertificateRequest() []byte {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // the source of random bytes does not fail
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "test"}}, key)
	if err != nil {
		panic(err) // a mistake in the template
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request})
}
