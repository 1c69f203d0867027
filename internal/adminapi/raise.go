package adminapi

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/purserpay/purser/policy"
)

// maxRaise bounds how long limits may be raised.
const maxRaise = 366 * 24 * time.Hour

// Raise is the member raise of a patch of a policy: the limits of [policy.Raise], and how long they hold. Instead of
// For, it may have until.
type Raise struct {
	For string `json:"for"` // from now on by purser's clock, such as 2h or 90m
}

// begunRaise gives the raise of a patch its end by purser's clock. begins reports whether there is one: it takes the place
// of an earlier raise as a whole.
func begunRaise(patch json.RawMessage, now time.Time) (with json.RawMessage, begins bool, err error) {
	var members, raise map[string]json.RawMessage
	if json.Unmarshal(patch, &members) != nil || json.Unmarshal(members["raise"], &raise) != nil || raise == nil {
		return patch, false, nil
	}
	var asked Raise
	if err := json.Unmarshal(members["raise"], &asked); err != nil {
		return patch, false, Errorf(http.StatusBadRequest, "raise: %w", err)
	}
	if _, given := raise["for"]; given {
		d, err := time.ParseDuration(asked.For)
		if err != nil || d < time.Second || d > maxRaise {
			return patch, false, Errorf(http.StatusBadRequest, "raise.for: %.40q is not a time from 1s to %s, such as 2h or 90m", asked.For, maxRaise)
		}
		if _, twice := raise["until"]; twice {
			return patch, false, Errorf(http.StatusBadRequest, "raise: either for or until says how long it holds")
		}
		until, err := json.Marshal(now.Add(d).UTC().Truncate(time.Second))
		if err != nil {
			return patch, false, err
		}
		delete(raise, "for")
		raise["until"] = until
	}
	if members["raise"], err = json.Marshal(raise); err == nil {
		with, err = json.Marshal(members)
	}
	return with, true, err
}

// withoutEnded drops a raise that has ended, or refuses it if the change began it.
func withoutEnded(was, pol *policy.Policy, now time.Time) (*policy.Policy, error) {
	switch {
	case pol == nil || pol.Raise == nil || pol.Raise.Until.IsZero(): // books refuses one without an end
		return pol, nil
	case !pol.Raise.Until.Before(now.Add(maxRaise + time.Minute)):
		return nil, Errorf(http.StatusBadRequest, "raise.until: more than %s from now", maxRaise)
	case pol.Raise.Holds(now):
		return pol, nil
	case was != nil && was.Raise != nil && was.Raise.Until.Equal(pol.Raise.Until):
		rest := *pol
		rest.Raise = nil
		return &rest, nil
	}
	return nil, Errorf(http.StatusBadRequest, "raise.until: %s has passed", pol.Raise.Until.UTC().Format(time.RFC3339))
}
