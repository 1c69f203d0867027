package payapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// createKey serves POST /api-keys.
func (a *API) createKey(r *http.Request) (reply, error) {
	if wait := takeTurn(a.keyRate, r, a.now()); wait > 0 {
		return reply{}, tooManyRequests(time.Duration(wait) * time.Second)
	}
	if a.closed && !a.internalCaller(r) {
		return reply{}, errClosed
	}
	place, err := a.admit(r, a.strangers, a.ofOthers, stranger(r))
	if err != nil {
		return reply{}, &keyError{err}
	}
	defer place.leave()
	f, err := readFields(r, textKeyFailed)
	if err != nil {
		return reply{}, &keyError{err}
	}
	want, err := a.keyRequest(r, f)
	if err != nil {
		return reply{}, err
	}
	key, secret, err := a.books.CreateKey(r.Context(), want)
	if err != nil {
		return reply{}, &keyError{err}
	}
	a.logins.Succeeded(pay.HashOf(secret), a.now())
	a.log.Info("API key created", "key", key.ID, "organization", key.OrganizationID)
	return reply{status: http.StatusCreated, body: struct {
		ID    string `json:"id"`
		Label string `json:"label"`
		Key   string `json:"key"`
	}{key.ID, key.Label, secret}}, nil
}

func (a *API) keyRequest(r *http.Request, f fields) (want books.KeyRequest, err error) {
	if want.Label, _, err = f.text("label", textKeyFailed); err != nil {
		return want, err
	}
	if want.Secret, _, err = f.text("key", textKeyFailed); err != nil {
		return want, err
	}
	organization, named, err := f.text("organization_id", textKeyFailed)
	if err != nil {
		return want, err
	}
	plan, planned, err := f.text("plan", textKeyFailed)
	if err != nil {
		return want, err
	}
	switch {
	case !named && !planned:
		if a.internalCaller(r) { // the holder of the secret answers for the key: see pay.Key.Relays
			want.Policy = &policy.Policy{Doors: []policy.Door{policy.DoorAPI, policy.DoorProxy, policy.DoorTransport}}
		}
		return want, nil
	case !a.internalCaller(r):
		return want, badRequest(textKeyFailed, "organization_id and plan need the right X-Internal-Secret")
	case organization == "":
		return want, badRequest(textKeyFailed, "organization_id: 1 to 200 visible characters")
	}
	want.OrganizationID = organization
	if planned {
		if want.Plan, err = pay.ParsePlan(plan); err != nil {
			return want, badRequest(textKeyFailed, err.Error())
		}
	}
	return want, nil
}

// internalCaller compares hashes, so that its time tells neither the secret nor its length.
func (a *API) internalCaller(r *http.Request) bool {
	values := r.Header.Values("X-Internal-Secret")
	if a.internal == nil || len(values) != 1 {
		return false
	}
	given := sha256.Sum256([]byte(values[0]))
	return subtle.ConstantTimeCompare(given[:], a.internal[:]) == 1
}
