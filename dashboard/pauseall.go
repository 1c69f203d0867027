package dashboard

import (
	"context"
	"net/http"
	"strings"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/pay"
)

// everything says whether purser pays at all, and what the visitor may do about it.
type everything struct {
	Paused bool
	Since  moment
	Reason string
	May    bool // pause and resume
	Told   bool // the bar above the page says that everything is paused
}

// mayStop reports whether the visitor may pause and resume everything: it stops all organizations.
func (v visit) mayStop() bool { return v.operator() && v.May(session.Change) }

func (d *dashboard) everything(ctx context.Context, v visit) (everything, error) {
	p, err := d.Books.Paused(ctx)
	e := everything{Paused: p != nil, May: v.mayStop(), Told: d.Troubles != nil && v.operator()}
	if p != nil {
		e.Since, e.Reason = momentOf(p.At, inText), cut(p.Reason, 500)
	}
	return e, err
}

type pausePage struct {
	everything
	Wrong *wrong
	Typed string
}

// ofEverything refuses visitors who do not operate this purser.
func (d *dashboard) ofEverything(serve func(*http.Request, visit, everything) (answer, error)) view {
	return func(r *http.Request, v visit) (answer, error) {
		if !v.mayStop() {
			return answer{}, &forbiddenError{session.Change}
		}
		e, err := d.everything(r.Context(), v)
		if err != nil {
			return answer{}, err
		}
		return serve(r, v, e)
	}
}

// askPause serves GET /dashboard/pause: the question before everything is paused, or resumed.
func (d *dashboard) askPause(_ *http.Request, _ visit, e everything) (answer, error) {
	return pauseWith(pausePage{everything: e}, http.StatusOK), nil
}

func pauseWith(p pausePage, status int) answer {
	title := "Pause everything"
	if p.Paused {
		title = "Resume everything"
	}
	return answer{status: status, page: "pause", title: title, nav: "/dashboard/", body: p}
}

// pauseAll serves POST /dashboard/pause. The reason is required: callers are told.
func (d *dashboard) pauseAll(r *http.Request, _ visit, e everything) (answer, error) {
	reason := strings.TrimSpace(r.PostForm.Get("reason"))
	if reason == "" || pay.CheckReason(reason, true) != nil || cut(reason, maxReason) != reason {
		text := "At most 200 characters on one line, and all of them visible."
		if reason == "" {
			text = "Say why in a few words: agents read it."
		}
		e.Paused = false // it asks for a reason again
		return pauseWith(pausePage{everything: e, Wrong: &wrong{Field: "reason", Text: text}, Typed: cut(reason, maxTitle)}, http.StatusUnprocessableEntity), nil
	}
	_, err := d.Books.PauseAll(r.Context(), reason)
	return answer{redirect: session.Home, say: saidAllPaused}, err
}

// resumeAll serves POST /dashboard/resume.
func (d *dashboard) resumeAll(r *http.Request, _ visit, _ everything) (answer, error) {
	return answer{redirect: session.Home, say: saidAllResumed}, d.Books.ResumeAll(r.Context())
}
