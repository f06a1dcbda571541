/*-------------------------------------------------------------------------
 *
 * tls_errors.c
 *	  Why a TLS connection has failed, as text.
 *
 * Text only: nothing in here allocates, raises or touches a connection.  The reasons are
 * OpenSSL's own texts, none of which contains a name, an address or anything of a
 * certificate.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/tls_errors.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include "store/redis/conn.h"

/* The first byte of each record is its content type. */
#define TLS_FIRST_TYPE		0x14
#define TLS_LAST_TYPE		0x18

/*
 * certificate_hint --- what to do about a certificate that was not accepted
 */
static const char *
certificate_hint(long verdict)
{
	switch (verdict)
	{
		case X509_V_ERR_CERT_HAS_EXPIRED:
			return gettext_noop("The node needs a new certificate, or the clock of this server is wrong.");
		case X509_V_ERR_CERT_NOT_YET_VALID:
			return gettext_noop("The clock of this server may be wrong, or that where the certificate was made.");
		case X509_V_ERR_HOSTNAME_MISMATCH:
		case X509_V_ERR_IP_ADDRESS_MISMATCH:
			return gettext_noop("The certificate has to name the host in lockredis.url or, if set, lockredis.tls_server_name.");
		case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
		case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
		case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
		case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
		case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
		case X509_V_ERR_CERT_SIGNATURE_FAILURE:
			return gettext_noop("Set lockredis.tls_ca_file to the certificate of the authority that has signed the node's.");
	}
	return NULL;
}

/*
 * alert_of --- the alert that the node has sent, or a number that is not an alert
 */
static int
alert_of(unsigned long error)
{
	return ERR_GET_LIB(error) == ERR_LIB_SSL ?
		ERR_GET_REASON(error) - SSL_AD_REASON_OFFSET : -1;
}

/*
 * is_about_our_certificate --- an alert of TLS 1.2 or 1.3; servers differ a lot
 *
 * Alerts about certificates have consecutive numbers, with one other among them.
 */
static bool
is_about_our_certificate(int alert)
{
	return alert == SSL_AD_CERTIFICATE_REQUIRED ||
		(alert >= SSL_AD_HANDSHAKE_FAILURE && alert <= SSL_AD_ACCESS_DENIED &&
		 alert != SSL_AD_ILLEGAL_PARAMETER);
}

static bool
is_about_versions(unsigned long error)
{
	int			reason = ERR_GET_REASON(error);

	return alert_of(error) == SSL_AD_PROTOCOL_VERSION ||
		(ERR_GET_LIB(error) == ERR_LIB_SSL &&
		 (reason == SSL_R_UNSUPPORTED_PROTOCOL ||
		  reason == SSL_R_VERSION_TOO_LOW));
}

/*
 * not_tls --- the peer does not speak TLS: what it may be, and a hint
 */
static const char *
not_tls(unsigned char first_byte, const char **hint)
{
	if (first_byte == 'H' || first_byte == '<')
		return "The node's answer is not TLS: it seems to be an HTTP server";
	*hint = gettext_noop("Write redis:// in lockredis.url, or the port where the node expects TLS.");
	return strchr("-+:$*", first_byte) != NULL ?
		"The node does not expect TLS on this port: it answers in Redis's protocol" :
		"The node's answer is not TLS";
}

/*
 * socket_ended --- the peer has ended the connection: message, reason and hint
 */
static const char *
socket_ended(const RedisTls *t, const char **words, const char **hint)
{
	if (t->first_byte == 0)
		*hint = gettext_noop("The port in lockredis.url may be one without TLS, or no Redis server's.");
	*words = t->socket_error != 0 ? strerror(t->socket_error) : "";
	return t->socket_error != 0 ? "The connection to the node was lost during the TLS handshake" :
		"The node closed the connection during the TLS handshake";
}

/*
 * our_certificate_refused --- why the node has refused our certificate, and a hint
 */
static const char *
our_certificate_refused(const RedisTls *t, const char **hint)
{
	if (SSL_get_certificate(t->ssl) == NULL)
	{
		*hint = gettext_noop("Set lockredis.tls_cert_file and lockredis.tls_key_file.");
		return "The node asks for a certificate of this server, and none is set";
	}
	*hint = gettext_noop("Check lockredis.tls_cert_file, and which authority the node trusts.");
	return "The node did not accept the certificate of this server";
}

/*
 * redis_tls_explain --- see conn.h
 */
void
redis_tls_explain(const RedisTls *t, RedisFailure *f)
{
	const char *words = ERR_reason_error_string(t->error);
	const char *hint = NULL;
	const char *what;
	int			sqlstate = ERRCODE_STORE_UNREACHABLE;
	long		verdict = t->shaken ? X509_V_OK : SSL_get_verify_result(t->ssl);

	if (words == NULL)
		words = "unknown error";
	if (verdict != X509_V_OK)
	{
		what = "The certificate of the node was not accepted";
		words = X509_verify_cert_error_string(verdict);
		hint = certificate_hint(verdict);
	}
	else if (t->error == 0)
		what = socket_ended(t, &words, &hint);
	else if (t->first_byte != 0 &&
			 (t->first_byte < TLS_FIRST_TYPE || t->first_byte > TLS_LAST_TYPE))
	{
		what = not_tls(t->first_byte, &hint);
		words = "";
	}
	else if (t->cert_wanted && is_about_our_certificate(alert_of(t->error)))
		what = our_certificate_refused(t, &hint);
	else if (is_about_versions(t->error))
	{
		what = "The node and this server have no version of TLS in common";
		hint = gettext_noop("TLS 1.2 or later is needed.");
	}
	else if (t->shaken)
	{
		what = "The TLS connection has failed";
		sqlstate = ERRCODE_STORE_FAILED;
	}
	else
		what = "The TLS handshake has failed";
	redis_failure_set(f, STORE_DOWN, sqlstate, hint, "%s%s%s.", what,
					  words[0] != '\0' ? ": " : "", words);
}
