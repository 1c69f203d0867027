package session

import (
	"net/http"
	"time"
)

// Notice holds the text of a page that says one thing.
type Notice struct {
	Title string // heading of a few words
	Text  string // a sentence or two
	// Detail is for the operator, such as the provider's error code. It may be "". It may come from
	// outside, so pages show it as text.
	Detail string
	// Action is the text of a link to ActionURL, the next step. Both may be "". ActionURL is a path
	// on this site, or the public URL.
	Action, ActionURL string
}

// Setup holds the contents of the page about setting up sign-in.
type Setup struct {
	// RedirectURL must be registered with the provider. When the visitor's address cannot be one,
	// it has https://purser.example.com as public URL, and Placeholder is true.
	RedirectURL string
	Placeholder bool
	// Variables lists the variables to set, in the order of explanation.
	Variables []Variable
}

// Variable explains a variable of the environment.
type Variable struct {
	Name, Meaning, Example string
	Optional               bool
}

// Pages shows notices in the dashboard's layout. Security headers and Cache-Control are set before
// it is called.
type Pages interface {
	// Render writes a page with a status.
	Render(w http.ResponseWriter, r *http.Request, status int, n Notice)
	// Link writes the page with the button that signs in with a link, with status 200. A script of the
	// page puts the part behind the # of its address into the form's field "link".
	Link(w http.ResponseWriter, r *http.Request)
	// Setup writes the page about setting up sign-in, with status 200.
	Setup(w http.ResponseWriter, r *http.Request, s Setup)
}

// refusal is an error with a page of its own.
type refusal struct {
	status int
	Notice
	retry time.Duration // sent as Retry-After, if it is not zero
}

func (r *refusal) Error() string { return r.Title }
