package servingcertificate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/kit/jsonpatch"
	"github.com/mooring-ccm/mooring/internal/dryrun"
)

// quiet is how old a request has to be before it is a warning that its node, or the instance of that, is not known: machines that join
// are known a moment later.
const quiet = time.Minute

// writer carries plans out.
type writer struct {
	client   client.Client
	recorder record.EventRecorder
	metrics  *metrics
	// limiter holds back events that a request has had a short while ago.
	limiter *kit.EventLimiter
}

// apply approves or denies a request, or says why it waits.
func (w writer) apply(ctx context.Context, object *certificatesv1.CertificateSigningRequest, decided decision) (kit.WriteOutcome, error) {
	switch decided.kind {
	case approve, deny:
		return w.decide(ctx, object, decided)
	case wait:
		early := decided.reason == ReasonNoNode || decided.reason == ReasonNoInstance
		if decided.reason != "" && (!early || time.Since(object.CreationTimestamp.Time) >= quiet) {
			w.warn(object, decided.reason, decided.message)
		}
	}
	return kit.NotTried, nil
}

// decide writes the condition Approved or Denied. It takes effect only on the very request that was looked at, and only if no other approver has
// decided meanwhile.
func (w writer) decide(ctx context.Context, object *certificatesv1.CertificateSigningRequest, decided decision) (kit.WriteOutcome, error) {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	log := log.FromContext(ctx).WithValues("request", object.Name)
	now := time.Now()
	target := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: object.Name, UID: object.UID}}
	err := w.client.SubResource("approval").Patch(dryrun.Because(ctx, decided.message), target, patchFor(object, decided, now), client.FieldOwner(Name))
	outcome := kit.OutcomeOf(err)
	switch {
	case outcome == kit.Written && decided.kind == approve:
		w.metrics.approved.Inc()
		w.metrics.waited.Observe(now.Sub(object.CreationTimestamp.Time).Seconds())
		log.Info("Serving certificate approved")
	case outcome == kit.Written:
		w.metrics.denied.WithLabelValues(decided.reason).Inc()
		w.warn(object, decided.reason, decided.message)
		log.Info("Serving certificate denied", "reason", kit.EventMessage(decided.message))
	case outcome.Failed() && !errors.Is(err, context.Canceled):
		err = kit.WriteError(fmt.Errorf("%s of the certificate signing request %q: %w", decided.kind, object.Name, err))
		w.metrics.failures.Inc()
		w.warn(object, ReasonWriteFailed, err.Error())
		log.Error(err, "Could not decide about a serving certificate; trying again")
	}
	return outcome, err
}

func (w writer) warn(object *certificatesv1.CertificateSigningRequest, reason, message string) {
	w.limiter.Record(w.recorder, object, corev1.EventTypeWarning, reason, message)
}

// patchFor returns a JSON patch that adds a condition, and tests that the request has the others and no more.
func patchFor(object *certificatesv1.CertificateSigningRequest, decided decision, now time.Time) jsonpatch.Patch {
	condition := certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: decided.reason, Message: kit.EventMessage(decided.message),
		LastUpdateTime: metav1.NewTime(now),
	}
	if decided.kind == deny {
		condition.Type = certificatesv1.CertificateDenied
	}
	before := object.Status.Conditions
	return jsonpatch.Replace(object.UID, "/status/conditions", before, append(slices.Clone(before), condition))
}
