// Package session signs visitors in to the dashboard. It implements OpenID Connect's code flow for
// any provider, and one-time links for the operator. It keeps sessions on the server, and defends
// them against pages of other sites and other programs (docs/design/surfaces.md).
//
// A Gate stands in front of the pages and answers all requests about signing in. Package dashboard
// shows keys and payments. Package pay keeps accounts, and decides what they may have.
package session
