package caddymodule

import (
	"net/http"
	"time"

	"github.com/purserpay/purser/pay"
)

// byHeader names the operator who uses a command, as the command says: who may reach the admin
// endpoint is decided by its socket, and it cannot tell who does.
const byHeader = "Purser-By"

// operatorOf is the actor of a request to the admin endpoint.
func operatorOf(r *http.Request) pay.Actor { return pay.Operator(r.Header.Get(byHeader)) }

// adminPause is a pause as the admin endpoint shows it.
type adminPause struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
}

func shownPause(p *pay.Pause) *adminPause {
	if p == nil {
		return nil
	}
	return &adminPause{p.At.UTC(), p.Reason, p.By.String()}
}

// pausing answers questions to the admin endpoint about the pause of everything.
type pausing struct {
	Paused *adminPause `json:"paused"` // null: nothing is
}

// newPause is the body of a request to pause.
type newPause struct {
	Reason string `json:"reason"`
}

// stopKey makes a handler of POST /purser/keys/{id}/pause, …/resume and …/revoke.
func stopKey(do pay.Stop) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		var want newPause
		if do == pay.StopPause {
			if err := readBody(w, r, &want); err != nil {
				return err
			}
		}
		t, err := enterTenant()
		if err != nil {
			return err
		}
		defer t.leave()
		k, err := t.find(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		if k, err = t.payer.StopKey(r.Context(), k.ID, do, want.Reason); err != nil {
			return adminFailure(err)
		}
		return writeBody(w, http.StatusOK, shownKey(t.payer, k))
	}
}

// pauseAll pauses everything: POST /purser/pause.
func (*adminAPI) pauseAll(w http.ResponseWriter, r *http.Request) error {
	var want newPause
	if err := readBody(w, r, &want); err != nil {
		return err
	}
	t, err := enterTenant()
	if err != nil {
		return err
	}
	defer t.leave()
	p, err := t.payer.PauseAll(r.Context(), want.Reason)
	if err != nil {
		return adminFailure(err)
	}
	return writeBody(w, http.StatusOK, pausing{shownPause(p)})
}

// resumeAll ends the pause: POST /purser/resume.
func (*adminAPI) resumeAll(w http.ResponseWriter, r *http.Request) error {
	t, err := enterTenant()
	if err != nil {
		return err
	}
	defer t.leave()
	if err := t.payer.ResumeAll(r.Context()); err != nil {
		return adminFailure(err)
	}
	return writeBody(w, http.StatusOK, pausing{})
}
