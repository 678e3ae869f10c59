package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

const (
	// tokenLife is how long a token is asked for, the shortest that the API server takes.
	tokenLife = 10 * time.Minute
	// tokenReserve is how long before its end a token is replaced.
	tokenReserve = time.Minute
)

// podTokens are tokens of a pod's account, bound to that pod. The pod and its kubelet have such tokens already: a process that takes the
// pod's place learns nothing from one.
type podTokens struct {
	client kubernetes.Interface
	pod    *corev1.Pod

	mu      sync.Mutex
	token   string
	expires time.Time
}

// tokensOf returns the tokens of a pod, of which it gets the first. A pod into which no token is mounted has none: its kubelet may not
// ask for one either.
func tokensOf(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) (*podTokens, error) {
	if !mountsToken(pod) {
		return nil, fmt.Errorf("--port-forward: pod %s/%s has no token of the API server, and your credentials are not sent to a pod: "+
			"name its secure port by --server", pod.Namespace, pod.Name)
	}
	tokens := &podTokens{client: client, pod: pod}
	_, err := tokens.get(ctx)
	return tokens, err
}

// mountsToken reports whether a token for the API server is mounted into a pod.
func mountsToken(pod *corev1.Pod) bool {
	for _, volume := range pod.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.ServiceAccountToken != nil && source.ServiceAccountToken.Audience == "" {
				return true
			}
		}
	}
	return false
}

// account is the pod's, for messages.
func (p *podTokens) account() string {
	return fmt.Sprintf("the ServiceAccount %s/%s", p.pod.Namespace, p.pod.Spec.ServiceAccountName)
}

// get returns a token that is good for a while.
func (p *podTokens) get(ctx context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Until(p.expires) > tokenReserve {
		return p.token, nil
	}
	made, err := p.client.CoreV1().ServiceAccounts(p.pod.Namespace).CreateToken(ctx, p.pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: ptr.To(int64(tokenLife.Seconds())),
			BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.pod.Name, UID: p.pod.UID},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("--port-forward: a token of %s, by which pod %s is asked in place of your credentials: %w; it takes \"create\" on "+
			"serviceaccounts/token", p.account(), p.pod.Name, err)
	}
	p.token, p.expires = made.Status.Token, made.Status.ExpirationTimestamp.Time
	return p.token, nil
}

// wrap sends the token with requests.
func (p *podTokens) wrap(next http.RoundTripper) http.RoundTripper { return bearing{next, p} }

type bearing struct {
	next   http.RoundTripper
	tokens *podTokens
}

func (b bearing) RoundTrip(request *http.Request) (*http.Response, error) {
	token, err := b.tokens.get(request.Context())
	if err != nil {
		return nil, err
	}
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+token)
	return b.next.RoundTrip(request)
}
