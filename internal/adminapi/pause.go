package adminapi

import (
	"net/http"
	"time"

	"github.com/purserpay/purser/pay"
)

// OperatorHeader names the operator who uses a command, as the command says: who may reach the admin
// endpoint is decided by its socket, and it cannot tell who does.
const OperatorHeader = "Purser-By"

// operatorOf is the actor of a request to the admin endpoint.
func operatorOf(r *http.Request) pay.Actor { return pay.Operator(r.Header.Get(OperatorHeader)) }

// Pause is a pause as the admin endpoint shows it.
type Pause struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
}

func shownPause(p *pay.Pause) *Pause {
	if p == nil {
		return nil
	}
	return &Pause{p.At.UTC(), p.Reason, p.By.String()}
}

// PauseState answers questions to the admin endpoint about the pause of everything.
type PauseState struct {
	Paused *Pause `json:"paused"` // null: nothing is
}

// NewPause is the body of a request to pause.
type NewPause struct {
	Reason string `json:"reason"`
}

// stopKey makes a handler of POST /purser/keys/{id}/pause, …/resume and …/revoke.
func (h *Handler) stopKey(do pay.Stop) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		var want NewPause
		if do == pay.StopPause {
			if err := readBody(w, r, &want); err != nil {
				return err
			}
		}
		p, err := h.enter()
		if err != nil {
			return err
		}
		defer p.Leave()
		k, err := p.find(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		if k, err = p.Books.StopKey(r.Context(), k.ID, do, want.Reason); err != nil {
			return failure(err)
		}
		return writeBody(w, http.StatusOK, shownKey(p.Payer, k))
	}
}

// pauseAll pauses everything: POST /purser/pause.
func (h *Handler) pauseAll(w http.ResponseWriter, r *http.Request) error {
	var want NewPause
	if err := readBody(w, r, &want); err != nil {
		return err
	}
	p, err := h.enter()
	if err != nil {
		return err
	}
	defer p.Leave()
	pause, err := p.Books.PauseAll(r.Context(), want.Reason)
	if err != nil {
		return failure(err)
	}
	return writeBody(w, http.StatusOK, PauseState{shownPause(pause)})
}

// resumeAll ends the pause: POST /purser/resume.
func (h *Handler) resumeAll(w http.ResponseWriter, r *http.Request) error {
	p, err := h.enter()
	if err != nil {
		return err
	}
	defer p.Leave()
	if err := p.Books.ResumeAll(r.Context()); err != nil {
		return failure(err)
	}
	return writeBody(w, http.StatusOK, PauseState{})
}
