// Package identity is an OpenID provider for the sandbox and for tests: one user, one client, one button. It does what
// sign-in to the dashboard needs of a provider (authorization code with PKCE, RS256, discovery, userinfo) strictly, so
// that a client that leaves something out fails here.
//
// In tests it can be told to lie; see Faults. It must never be reachable from elsewhere: whoever reaches it is the user.
package identity
