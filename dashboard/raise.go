package dashboard

import (
	"net/http"
	"strings"
	"time"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// raiseOf returns the raise of a key's limits that holds at a time; nil: there is none.
func raiseOf(k pay.Key, at time.Time) *policy.Raise {
	if k.Policy == nil || !k.Policy.Raise.Holds(at) {
		return nil
	}
	return k.Policy.Raise
}

// raiseText says which numbers are raised, and until when; "" for none.
func raiseText(r *policy.Raise) string {
	if r == nil {
		return ""
	}
	raised := policy.Policy{Raise: r}.At(r.Until.Add(-1))
	var list []string
	for _, f := range limitFields() {
		if len(f.text(raised)) > 0 {
			list = append(list, strings.ToLower(f.label[:1])+f.label[1:]+": "+f.says(raised))
		}
	}
	return cut(strings.Join(list, "; "), maxTitle) + ", until " + pay.Moment(r.Until)
}

// endRaise serves POST /dashboard/keys/{id}/end-raise. The lasting limits hold again.
func (d *dashboard) endRaise(r *http.Request, v visit, k pay.Key) (answer, error) {
	if k.Policy == nil || k.Policy.Raise == nil {
		return answer{redirect: keyPath(k.ID)}, nil
	}
	next := *k.Policy
	next.Raise = nil
	if len(d.Payer.Raises(k, &next)) > 0 { // its numbers are lower than the lasting ones
		if err := d.mayRaise(r.Context(), v, k); err != nil {
			return answer{}, err
		}
		if !v.Fresh(v.now) {
			return answer{redirect: session.Again(keyPath(k.ID))}, nil
		}
	}
	_, err := d.Books.SetPolicyAt(r.Context(), k.ID, k.PolicyRevision, &next)
	return answer{redirect: keyPath(k.ID), say: saidRaiseEnded}, err
}
