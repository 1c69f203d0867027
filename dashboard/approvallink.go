package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
)

// linkActor answers approvals by a link. It is the operator, who has set up where notices go.
func linkActor() pay.Actor {
	return pay.Actor{Kind: pay.ActorOperator, ID: "with the link of a notice"}
}

type approvalLinkPage struct {
	approvalTerms
	Path, Token string // Token is "" before the link is checked
	Waits       bool
	Story       string
	Late        string
	Wrong       *wrong
	Typed       string
}

// approvalLink serves /dashboard/approve/{id}, for people without a session. A GET shows a form for the
// link, and nothing of the approval: the token stays behind the # of the address. A POST with a token
// shows the terms, and answers the approval if it says so. So programs that load links in advance see
// nothing and change nothing.
func (d *dashboard) approvalLink(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(pay.WithActor(r.Context(), linkActor()), pageTime)
	defer cancel()
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	a, err := d.linked(r.WithContext(ctx))
	if err != nil {
		a = d.refuse(r, err, w.Header())
	}
	w.Header().Set("Cache-Control", "no-store")
	d.render(w, a, frame{Title: a.title, Body: a.body, Version: d.Version, PlayMoney: d.PlayMoney})
}

func (d *dashboard) linked(r *http.Request) (answer, error) {
	id, err := pathID(r)
	if err != nil {
		return answer{}, errApprovalLink
	}
	p := approvalLinkPage{Path: session.ApprovalLink + id}
	page := answer{page: "approvallink", title: "A payment waits for approval"}
	if r.Method != http.MethodPost {
		page.body = p
		return page, nil
	}
	if err := r.ParseForm(); err != nil {
		return answer{}, errForm
	}
	token := r.PostForm.Get("link")
	switch err := d.ApprovalLinks.Check(r.Context(), id, token); {
	case errors.Is(err, session.ErrApprovalLink):
		return answer{}, errApprovalLink
	case err != nil:
		return answer{}, err
	}
	if err := d.throttle.takePosts("link of "+id, 1, d.Clock()); err != nil {
		return answer{}, err
	}
	a, err := d.Books.ApprovalIn(r.Context(), books.OfOperator(), id)
	if err != nil {
		return answer{}, err
	}
	p.Token = token[strings.LastIndex(token, "#")+1:]
	if a, err = d.answerByLink(r, a, &p, &page); err != nil {
		return answer{}, err
	}
	k, err := d.Books.Key(r.Context(), a.KeyID)
	if err != nil {
		return answer{}, err
	}
	now := d.Clock().UTC()
	p.approvalTerms, p.Waits = termsOf(a, k), a.State(now) == pay.ApprovalPending
	p.Story = approvalStory(a, now, "the "+cut(a.By.String(), maxName))
	page.body, page.secret = p, true
	return page, nil
}

// answerByLink answers the approval if the form says so. A link raises no limit.
func (d *dashboard) answerByLink(r *http.Request, a pay.Approval, p *approvalLinkPage, page *answer) (pay.Approval, error) {
	q := pay.ApprovalAnswering{ID: a.ID, At: d.Clock()}
	switch r.PostForm.Get("answer") {
	case "":
		return a, nil
	case "approve":
		q.Answer = pay.Approved
	case "deny":
		q.Answer, q.Reason = pay.Denied, strings.TrimSpace(r.PostForm.Get("reason"))
		if p.Wrong = wrongReason(q.Reason); p.Wrong != nil {
			page.status, p.Typed = http.StatusUnprocessableEntity, cut(q.Reason, maxTitle)
			return a, nil
		}
	default:
		return a, errForm
	}
	done, err := d.desk().Answer(r.Context(), q, false)
	if errors.Is(err, pay.ErrApprovalClosed) {
		a, err = d.Books.ApprovalIn(r.Context(), books.OfOperator(), a.ID)
		page.status, p.Late = http.StatusConflict, lateText(a)
		return a, err
	}
	if err == nil {
		d.Logger.Info("approval answered with the link of a notice", "approval", a.ID, "answer", string(q.Answer))
	}
	return done.Approval, err
}
