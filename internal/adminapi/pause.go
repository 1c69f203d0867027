package adminapi

import (
	"net/http"
	"time"

	"github.com/purserpay/purser/pay"
)

// OperatorHeader names the operator who uses a command, as the command says. The endpoint's socket
// admits operators, and does not tell one from another.
const OperatorHeader = "Purser-By"

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

// NewStop is the body of a request to pause or resume a key, or one host for it.
type NewStop struct {
	Host   string `json:"host,omitempty"`   // "": the whole key
	Reason string `json:"reason,omitempty"` // of a pause
}

// stopKey serves POST /purser/keys/{id}/pause, …/resume, …/revoke and …/end-overlap.
func (p *Purser) stopKey(r *http.Request, do pay.Stop, want NewStop) (any, error) {
	k, err := p.find(r.Context(), r.PathValue("id"))
	if err == nil {
		k, err = p.Books.StopKey(r.Context(), k.ID, pay.KeyStop{Do: do, Host: want.Host, Reason: want.Reason})
	}
	return p.shownKey(k), err
}

func (p *Purser) pauseKey(r *http.Request, want NewStop) (any, error) {
	return p.stopKey(r, pay.StopPause, want)
}

func (p *Purser) resumeKey(r *http.Request, want NewStop) (any, error) {
	return p.stopKey(r, pay.StopResume, NewStop{Host: want.Host})
}

func (p *Purser) revokeKey(r *http.Request) (any, error) {
	return p.stopKey(r, pay.StopRevoke, NewStop{})
}

func (p *Purser) endOverlap(r *http.Request) (any, error) {
	return p.stopKey(r, pay.StopOverlap, NewStop{})
}

func (p *Purser) pauseAll(r *http.Request, want NewPause) (any, error) {
	pause, err := p.Books.PauseAll(r.Context(), want.Reason)
	return PauseState{shownPause(pause)}, err
}

func (p *Purser) resumeAll(r *http.Request) (any, error) {
	return PauseState{}, p.Books.ResumeAll(r.Context())
}
