package metallb

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/config/convert"
)

const (
	// secretInterval is how often the Secrets are read again. The manager may not watch them: that right shows every Secret
	// of the namespace, and get shows one whose name is known.
	secretInterval = 10 * time.Second
	// secretTimeout is how long the API server has to answer for one.
	secretTimeout = 5 * time.Second
)

// secrets are where BGPPeers have their passwords.
var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// password is what was read of a Secret.
type password struct {
	content []byte
	// wrong says why there is no content, and what to do.
	wrong error
}

// same reports whether both say the same.
func (p password) same(other password) bool {
	return bytes.Equal(p.content, other.content) && fmt.Sprint(p.wrong) == fmt.Sprint(other.wrong)
}

// ReadFile returns what is known of the Secret that convert.SecretFile stands for, without asking for it. It reads every other file.
func (s *Source) ReadFile(path string) ([]byte, error) {
	name, is := s.secretOf(path)
	if !is {
		return os.ReadFile(path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known, found := s.passwords[name]
	if !found {
		return nil, fmt.Errorf("%s is being read", s.secretName(name))
	}
	return known.content, known.wrong
}

// secretOf returns the name of the Secret that a path stands for. It is in the namespace of the resources, whatever the name is.
func (s *Source) secretOf(path string) (name string, is bool) {
	return strings.CutPrefix(path, convert.SecretFile(s.namespace, ""))
}

// FollowPasswords reads the Secrets that BGPPeers name again until ctx ends: every 10s, and when other BGPPeers are in force. Changed is called
// after a change.
func (s *Source) FollowPasswords(ctx context.Context, changed func()) {
	tick := time.NewTicker(secretInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.routers:
		case <-tick.C:
		}
		if s.ReadPasswords(ctx) {
			changed()
		}
	}
}

// ReadPasswords reads the Secrets that BGPPeers name, and reports whether anything is different. It is not called concurrently.
func (s *Source) ReadPasswords(ctx context.Context) (changed bool) {
	s.mu.Lock()
	before, section := s.passwords, s.current.config.BGP
	s.mu.Unlock()
	now := map[string]password{}
	if section != nil {
		for _, peer := range section.Peers {
			if name, is := s.secretOf(peer.PasswordFile); is {
				now[name] = before[name]
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		was, known := before[name]
		read, err := s.readSecret(ctx, name)
		switch {
		case err == nil:
		case known:
			read = was // the API server is away, and the Secret is what it was
		default:
			read.wrong = err
		}
		now[name] = read
		if known && read.same(was) {
			continue
		}
		changed = true
		if read.wrong != nil {
			logr.FromContextOrDiscard(ctx).Info("Could not use the password in a Secret", "file", s.secretName(name), "reason", read.wrong.Error())
		}
	}
	s.mu.Lock()
	s.passwords = now
	s.mu.Unlock()
	if changed {
		offer(s.wake, struct{}{})
	}
	return changed
}

// secretName names a Secret for people.
func (s *Source) secretName(name string) string { return "Secret " + s.namespace + "/" + name }

// readSecret returns what a Secret has to say. The error says that the API server did not answer.
func (s *Source) readSecret(ctx context.Context, name string) (password, error) {
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return password{wrong: fmt.Errorf("%q is no name of a Secret: %s", name, strings.Join(wrong, ", "))}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	secret, err := s.client.Resource(secrets).Namespace(s.namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return password{wrong: fmt.Errorf("there is no %s: create it with type %s and the key %s", s.secretName(name), corev1.SecretTypeBasicAuth,
			corev1.BasicAuthPasswordKey)}, nil
	case apierrors.IsForbidden(err):
		return password{wrong: fmt.Errorf("reading %s, for which the verb get is needed: %w", s.secretName(name), err)}, nil
	case err != nil:
		return password{}, fmt.Errorf("reading %s: %w", s.secretName(name), err)
	}
	content, err := passwordIn(secret)
	if err != nil {
		err = fmt.Errorf("%s: %w", s.secretName(name), err)
	}
	return password{content: content, wrong: err}, nil
}

// passwordIn returns the password in a Secret, which is where MetalLB has it.
func passwordIn(secret *unstructured.Unstructured) ([]byte, error) {
	if of, _, _ := unstructured.NestedString(secret.Object, "type"); of != string(corev1.SecretTypeBasicAuth) {
		return nil, fmt.Errorf("its type is %q: create it anew with type %s", of, corev1.SecretTypeBasicAuth)
	}
	encoded, found, err := unstructured.NestedString(secret.Object, "data", corev1.BasicAuthPasswordKey)
	if err != nil || !found {
		return nil, errors.New("it has no key " + corev1.BasicAuthPasswordKey + ": add it")
	}
	content, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New("its key " + corev1.BasicAuthPasswordKey + " is not in Base64")
	}
	if _, err := config.Password(content); err != nil {
		return nil, err
	}
	return content, nil
}

// wrongPasswords returns why passwords cannot be used, by the names of the BGPPeers. Callers hold the lock.
func (s *Source) wrongPasswords() map[string]error {
	wrong := map[string]error{}
	if s.current.config.BGP == nil {
		return wrong
	}
	for _, peer := range s.current.config.BGP.Peers {
		if name, is := s.secretOf(peer.PasswordFile); is && s.passwords[name].wrong != nil {
			wrong[peer.Name] = s.passwords[name].wrong
		}
	}
	return wrong
}
