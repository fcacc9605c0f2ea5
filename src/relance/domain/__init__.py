"""The words of Relance as frozen values; standard library only."""
